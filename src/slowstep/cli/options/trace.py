"""The options of `slowstep analyze` that are for traces alone, and what their words mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slowstep.cli.numbers import whole_number
from slowstep.errors import BadUsage

if TYPE_CHECKING:
    from slowstep.analyses.measure_trace import ChosenStep

_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

StepOption = Annotated[
    str | None, typer.Option("--step", metavar="N|slowest|median", help="Look at one step of a trace: by its number, or its length.")
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        metavar="N",
        parser=whole_number("--batch-size", least=1),
        help="Samples in a step of the trace, where the trace does not say.",
    ),
]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Take at most so much memory, e.g. 500M: of a long trace the last steps.")
]


def parse_step(text: str | None) -> ChosenStep:
    """The step that `--step` chooses: its number, or by which length; None without it. Raises BadUsage."""
    if text is None or text == "slowest" or text == "median":
        return text  # type: ignore[return-value]
    try:
        return int(text)
    except ValueError:
        raise BadUsage(f"--step {text}: give a step's number, `slowest` or `median`.") from None


def parse_memory(text: str | None) -> int | None:
    """The bytes of `--memory`, in powers of 1024; None without it. Raises BadUsage."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)i?b?", text.strip().lower())
    if match is None or float(match[1]) <= 0:
        raise BadUsage(f"--memory {text}: give a size such as 500M or 2G.")
    return int(float(match[1]) * _UNITS[match[2]])
