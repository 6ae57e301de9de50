"""What a trace tells of the device: kernels, copies, waits, launches, one declared table each."""
