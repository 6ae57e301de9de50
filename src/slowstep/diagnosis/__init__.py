"""Measurements -> findings with gains -> a verdict."""
