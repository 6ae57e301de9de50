"""Hugging Face's Trainer: what is known of it."""
