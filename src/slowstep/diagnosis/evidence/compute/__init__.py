"""What rules on the computing share: model, optimizer, batch size."""
