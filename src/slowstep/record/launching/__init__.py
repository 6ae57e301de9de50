"""Starts the user's command with recording on, watches it from outside, and ends the recording."""
