"""The command line: one file per subcommand, `main.py` puts them together."""

from typing import Final

VERSION_OPTIONS: Final = ("--version", "-V")
