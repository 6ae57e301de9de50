"""What a trace and its report become for other programs."""
