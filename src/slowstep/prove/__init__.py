"""Controlled experiments: their design and statistics (pure), the sandbox and the executor (which touch the world), and the runner."""
