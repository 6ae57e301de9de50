"""One act per file: what the command line, notebooks and clusters call."""
