"""The same parts used on one half of a training: its loader alone, its compute alone."""
