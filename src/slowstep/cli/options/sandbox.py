"""What commands share that run the user's command as an experiment: options, and what is held against them before anything starts."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer

from slowstep.cli.numbers import whole_number
from slowstep.errors import BadUsage
from slowstep.record.writing import format as contract

SANDBOXES: Final = ("overlay", "copy")

# The help text of each command says what it is.
CommandWords = Annotated[list[str], typer.Argument(hidden=True)]
Writes = Annotated[bool, typer.Option("--allow-writes", help="Where no sandbox is possible, let the training change your files.")]
SandboxKind = Annotated[str | None, typer.Option("--sandbox", metavar="|".join(SANDBOXES), help="Use this kind of sandbox and no other.")]
Seed = Annotated[
    int | None,
    typer.Option("--seed", parser=whole_number("--seed", least=0), metavar="N", help="Draw the order of the blocks from this seed."),
]


def check_can_measure(sandbox: str | None) -> None:
    """Hold the environment, and the sandbox that was asked for, against what an experiment needs. Raises BadUsage."""
    if os.environ.get(contract.ENV_DISABLE):
        raise BadUsage(f"{contract.ENV_DISABLE} is set, so nothing can be measured. Unset it.")
    if sandbox is not None and sandbox not in SANDBOXES:
        raise BadUsage(f"--sandbox {sandbox}: give {' or '.join(SANDBOXES)}.")
