"""What analyses and rules know of it, outside the training."""
