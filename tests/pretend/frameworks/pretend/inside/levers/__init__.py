"""How trainings with it are changed."""
