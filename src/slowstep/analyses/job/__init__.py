"""All ranks of a training together: who they are and who is missing, and whose own work the others wait for."""
