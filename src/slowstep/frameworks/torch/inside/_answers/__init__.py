"""What torch answers where the recorder asks a framework (record/framework.py)."""
