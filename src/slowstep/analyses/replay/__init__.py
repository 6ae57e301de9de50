"""Gain by replay: how long steps would have taken with one thing changed."""
