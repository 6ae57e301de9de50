"""What ranks wait for while they share gradients."""
