"""What slows the computing itself: model, optimizer, Python."""
