"""What the sandbox is made of. `inside.py` and `guard.py` run as processes of their own, with nothing but the standard library."""
