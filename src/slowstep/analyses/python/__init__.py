"""The user's functions: which of them held a thread, by stacks and by timed calls, and who called."""
