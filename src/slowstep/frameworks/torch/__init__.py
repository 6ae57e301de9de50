"""PyTorch: what is known of it."""
