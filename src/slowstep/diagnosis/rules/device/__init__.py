"""What an accelerator waits for, or does in vain."""
