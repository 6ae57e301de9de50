"""The rows of a trace as analyses ask for them: names, nesting, unions of intervals, calls of the runtime, the device's work."""
