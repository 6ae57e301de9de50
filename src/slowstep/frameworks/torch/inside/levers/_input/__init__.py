"""What levers of input are made of: the training's batches come from elsewhere than its DataLoader."""
