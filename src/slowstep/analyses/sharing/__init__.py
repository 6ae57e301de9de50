"""Gradient sharing: collectives and what is waited for in them."""
