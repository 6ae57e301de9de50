"""Hugging Face's Accelerate: what is known of it."""
