"""What the step's own work is made of: forward, backward, optimizer, and Python between them."""
