"""What levers that change calls of functions are made of, here and in loader workers."""
