"""What rules on the input share."""
