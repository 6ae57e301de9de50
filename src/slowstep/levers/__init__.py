"""Levers: changes made to an unmodified training from outside, one a file, inside its process: standard library and torch only."""
