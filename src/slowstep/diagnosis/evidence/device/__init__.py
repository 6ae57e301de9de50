"""What rules on steps of a device share."""
