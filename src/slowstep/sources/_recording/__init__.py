"""Parts of the reader of recordings."""
