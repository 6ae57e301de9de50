"""How recording gets into the processes of a command, and what begins it in them."""
