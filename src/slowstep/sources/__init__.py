"""A file or folder, in whatever format, becomes a Timeline."""
