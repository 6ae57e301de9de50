"""What slows the input: reading, preprocessing, workers."""
