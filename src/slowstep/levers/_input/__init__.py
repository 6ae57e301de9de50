"""What levers that change the training's batches are made of."""
