"""What is recorded of it inside the training: hooks, one thing a file. Standard library only; nothing of the framework is imported."""
