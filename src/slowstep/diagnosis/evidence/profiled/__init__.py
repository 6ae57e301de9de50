"""What rules share on steps that a profiler marks."""
