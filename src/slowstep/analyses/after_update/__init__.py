"""The gap between an update and the next forward, divided by stacks and by timed calls."""
