"""What a report becomes for other programs, or the trace or recording that it is of."""
