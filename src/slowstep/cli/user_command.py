"""Command lines that end in a command of the user's: options of ours are read up to it, and not a word further."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from typer.core import TyperCommand

from slowstep.errors import BadUsage

# The end of a script's name, where an option's value was forgotten.
SCRIPT: Final = ".py"


class UserCommand(TyperCommand):
    """Reads options up to the user's command: the rest is the user's, `--help` and `-m` included."""

    # Options that stand alone although they take a value.
    alone: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Split the words; an option of `alone` gets its usual value, since the next word may be the command."""
        end = self._count_own_words(args)
        own = [f"{word}={self.alone[word]}" if word in self.alone else word for word in args[:end]]
        rest = args[end + 1 :] if args[end : end + 1] == ["--"] else args[end:]
        if not rest and len(own) > 1 and own[-1].endswith(SCRIPT) and own[-2].startswith("-"):
            ctx.fail(f"no command is left: {own[-1]} was taken for the value of {own[-2]}. Give that its own, then the command.")
        return super().parse_args(ctx, [*own, "--", *rest])

    def _count_own_words(self, args: list[str]) -> int:
        takes_value = {name: not getattr(option, "is_flag", False) for option in self.params for name in option.opts}
        position = 0
        while position < len(args) and args[position].startswith("-") and args[position] not in ("-m", "-", "--"):
            word = args[position]
            position += 2 if takes_value.get(word, False) and word not in self.alone else 1
        return min(position, len(args))


def check_json_target(json: str | None) -> None:
    """Hold the place for a report against what can be written. Raises BadUsage."""
    if json is None or json == "-":
        return
    if json.endswith(SCRIPT):
        raise BadUsage(f"--json {json}: the report would be written over a script. Name another file: --json report.json {json}.")
    if Path(json).is_dir():
        raise BadUsage(f"--json {json} is a folder. Name a file in it: --json {json.rstrip('/')}/report.json.")
    if not Path(json).absolute().parent.is_dir():
        raise BadUsage(f"--json {json}: there is no folder {Path(json).absolute().parent}. Make it first, or name another.")
