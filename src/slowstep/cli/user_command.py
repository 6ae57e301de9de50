"""Command lines that end in a command of the user's: options of ours are read up to it, and not a word further."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from typer.core import TyperCommand

from slowstep.errors import BadUsage

# The end of a script's name, where an option's value was forgotten.
SCRIPT: Final = ".py"
OWN: Final = "slowstep"


def can_be_started(word: str) -> bool:
    """Whether a word may be the first of a user's command: it is a file, or a program that is found."""
    return os.path.exists(word) or shutil.which(word) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Alone:
    """An option that stands alone although it takes a value: the value that it then has, and what its own looks like as the next word."""

    usual: str
    form: re.Pattern[str]

    def takes(self, word: str) -> bool:
        """Whether the next word is the option's value: what could be started is the user's command, whatever it looks like."""
        return self.form.fullmatch(word) is not None and not can_be_started(word)


class UserCommand(TyperCommand):
    """Reads options up to the user's command: the rest is the user's, `--help` and `-m` included."""

    # Options that stand alone although they take a value.
    alone: ClassVar[Mapping[str, Alone]] = {}
    # What is missing where no command is given.
    needs: ClassVar[str] = "the command that trains"

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind the command's name in the help text."""
        return ["[OPTIONS]", "COMMAND..."]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Split the words at the first that is the user's."""
        own, rest = self._divided(args)
        if not rest and own and self._takes_value.get(own[-1], False):
            ctx.fail(f"{own[-1]} needs a value, and behind it the command that trains")
        if not rest and len(own) > 1 and own[-1].endswith(SCRIPT) and own[-2].startswith("-"):
            ctx.fail(f"no command is left: {own[-1]} was taken for the value of {own[-2]}. Give that its own, then the command.")
        if _is_own(rest):
            ctx.fail(f"{' '.join(rest[:3])} ...: the command to look at is slowstep itself. Give the command that trains.")
        return super().parse_args(ctx, [*own, "--", *rest])

    @property
    def _takes_value(self) -> dict[str, bool]:
        return {name: not getattr(option, "is_flag", False) for option in self.params for name in option.opts}

    def _divided(self, args: list[str]) -> tuple[list[str], list[str]]:
        """Our options with their values, and the user's command."""
        takes_value = self._takes_value
        own, position = list[str](), 0
        while position < len(args) and args[position].startswith("-") and args[position] not in ("-m", "-", "--"):
            word, following = args[position], args[position + 1 : position + 2]
            alone = self.alone.get(word)
            if alone is not None:
                following = following if following and alone.takes(following[0]) else []
                own.append(f"{word}={following[0] if following else alone.usual}")
            else:
                following = following if takes_value.get(word, False) else []
                own += [word, *following]
            position += 1 + len(following)
        return own, args[position + 1 :] if args[position : position + 1] == ["--"] else args[position:]


def _is_own(words: list[str]) -> bool:
    """Whether a command starts slowstep: one recording inside of another would take its hooks away."""
    return words[:2] == ["-m", OWN] or (bool(words) and os.path.basename(words[0]) == OWN and not os.path.isdir(words[0]))


def check_json_target(json: str | None) -> None:
    """Hold the place for a report against what can be written, before the command starts. Raises BadUsage, and UnwritableOutput where
    there is a file that is no report, or none can be made.
    """
    if json is None or json == "-":
        return
    if json.endswith(SCRIPT):
        raise BadUsage(f"--json {json}: the report would be written over a script. Name another file: --json report.json {json}.")
    if Path(json).is_dir():
        raise BadUsage(f"--json {json} is a folder. Name a file in it: --json {json.rstrip('/')}/report.json.")
    if not Path(json).absolute().parent.is_dir():
        raise BadUsage(f"--json {json}: there is no folder {Path(json).absolute().parent}. Make it first, or name another.")
    # Imported here: a command without the option starts without it.
    from slowstep.report.json import check_target

    check_target(json)
