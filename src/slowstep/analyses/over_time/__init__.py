"""What is not the same in every step: growth, periods, the machine's pace, the start."""
