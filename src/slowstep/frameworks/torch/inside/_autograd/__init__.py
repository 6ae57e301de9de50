"""What hooks of models and backward passes read of autograd: its graph, and which calls it goes through."""
