"""A proved change as a patch of the script: which call it is an argument of, and the difference that makes it. Pure."""
