"""What runs inside the training."""
