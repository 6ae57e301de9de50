"""Schedules, sums and intervals of experiments. Pure."""
