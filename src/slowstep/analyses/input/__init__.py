"""What makes the input slow: the sampler, samples, restarts, threads, and validations' input."""
