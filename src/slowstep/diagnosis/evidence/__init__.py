"""What rules on one subject have in common: their evidence, thresholds and what may be claimed."""
