"""The command line: one file per subcommand, `main.py` puts them together."""
