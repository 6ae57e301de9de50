"""TensorFlow: what traces show of it."""
