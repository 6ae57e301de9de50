"""What is seen of accelerators: from inside the training without waiting for them, and through their driver's own library."""
