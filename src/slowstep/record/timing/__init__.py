"""How the script's own code is timed: stacks, calls and lines. Nothing here knows the recorder."""
