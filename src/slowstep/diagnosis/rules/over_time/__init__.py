"""What shows over many steps only."""
