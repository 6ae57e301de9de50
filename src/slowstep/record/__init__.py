"""Recording, inside the training process: standard library only, and never an exception into the training."""
