"""What keeps the next step waiting after an update."""
