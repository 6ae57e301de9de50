"""The report as plain data, its schema, and the one place where it is built: of what was measured, judged, tried, and seen of ranks."""
