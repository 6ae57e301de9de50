"""How recording gets into the processes of a command, and out of them again."""
