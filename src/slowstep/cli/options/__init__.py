"""The options that commands share, and what is held against them before anything starts."""
