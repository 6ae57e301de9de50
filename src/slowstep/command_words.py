"""Commands of slowstep as they are typed: whatever names one for its reader to type has it from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slowstep.harmless import for_shell

if TYPE_CHECKING:
    from pathlib import Path


def run(command: str, *options: str) -> str:
    """`slowstep run` of a command that is quoted already."""
    return f"{for_shell(('slowstep', 'run', *options))} {command}"


def prove(command: str, *options: str) -> str:
    """`slowstep prove` of such a command."""
    return f"{for_shell(('slowstep', 'prove', *options))} {command}"


def prove_levers(levers: str) -> str:
    """`slowstep prove` with these levers, of whatever is trained."""
    return for_shell(("slowstep", "prove", "--levers", levers))


def bench(what: str, command: str, *options: str) -> str:
    """`slowstep bench` of one half of such a command."""
    return f"{for_shell(('slowstep', 'bench', what, *options))} {command}"


def analyze(*words: Path | str) -> str:
    """`slowstep analyze` of what lies at paths, with options."""
    return for_shell(("slowstep", "analyze", *map(str, words)))


def explain(name: str) -> str:
    """The command that tells what a rule or a lever is about."""
    return f"slowstep explain {name}"
