"""JAX: what traces show of it."""
