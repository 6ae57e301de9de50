"""Lightning: what is known of it."""
