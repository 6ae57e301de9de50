"""Parts of the reader of XPlane files."""
