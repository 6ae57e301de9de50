"""What the system says of processes and of the machine, as text files of the kernel."""
