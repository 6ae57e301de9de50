"""Options by what they are of, those that commands share among them, and what is held against them before anything starts."""
