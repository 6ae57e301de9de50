"""Mistakes in a command line, in words: which option or value, what was expected, and what to type instead."""

from __future__ import annotations

import re
from typing import Any, Final

import typer

from slowstep.close_names import close_names

# What typer raises for a mistake in a command line. Of its errors only a child of these has a public name: typer carries its own click.
WrongUse: Final[Any] = typer.BadParameter.__base__
Mistake: Final[Any] = WrongUse.__base__
# How typer says that there are more words than a command takes.
_EXTRA: Final = re.compile(r"Got unexpected extra argument(\(s\)|s?) \((?P<words>.*)\)")


def explained(mistake: Any) -> str:
    """What is printed of a mistake that typer found: a line of ours, or the help text where nothing was asked for."""
    kind, context = type(mistake).__name__, getattr(mistake, "ctx", None)
    if kind == "NoArgsIsHelpError":
        return str(mistake.message)
    if kind == "BadOptionUsage":
        # Nothing but a missing value: of it alone typer does not say at which command.
        return f"slowstep: {mistake.option_name} needs a value. --help says which."
    if context is None:
        return f"slowstep: {mistake.format_message()}"
    path = context.command_path
    if kind == "NoSuchOption":
        return f"slowstep: {mistake.option_name} is no option of {path}. {_instead(mistake.option_name, context)}"
    if kind == "MissingParameter" and getattr(context.command, "needs", None):
        return f"slowstep: give {context.command.needs}: {path} train.py"
    message = mistake.format_message().rstrip(".")
    if (extra := _EXTRA.fullmatch(message)) is not None:
        return f"slowstep: {path} takes no {extra['words']!r}. {path} --help says more."
    return f"slowstep: {message[:1].lower()}{message[1:]}. {path} --help says more."


def _instead(option: str, context: Any) -> str:
    names = {name.lstrip("-"): name for parameter in context.command.get_params(context) for name in parameter.opts if name.startswith("-")}
    close = close_names(option.lstrip("-").lower(), names, most=2)
    if close:
        return f"Did you mean {' or '.join(names[name] for name in close)}?"
    return f"{context.command_path} --help lists them."
