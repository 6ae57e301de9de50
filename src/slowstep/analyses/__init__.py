"""Timeline -> measurement tables. What a rule may know is measured here, and nowhere else."""
