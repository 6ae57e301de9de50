"""JAX: functions that are compiled, and called again and again."""
