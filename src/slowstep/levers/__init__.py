"""Levers: changes made to an unmodified training from outside, one a file; how they are made, frameworks say."""
