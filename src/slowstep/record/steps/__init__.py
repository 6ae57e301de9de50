"""What is recorded of a training's steps, whichever framework makes them: updates, spans, checkpoint writes, collections of garbage."""
