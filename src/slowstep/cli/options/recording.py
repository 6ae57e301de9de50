"""The options of `slowstep run` alone: how long is recorded, how much of it, and what it changes."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from slowstep.cli.numbers import whole_number
from slowstep.record.launching.overdue import START_UP_S
from slowstep.record.launching.status import ENV_NO_TITLE
from slowstep.record.launching.stopping import StopLimits

# Five steps, after a warm-up of any usual training.
USUAL_CAPTURE: Final = "31-35"

StepsOption = Annotated[
    int | None, typer.Option("--steps", parser=whole_number("--steps", least=1), metavar="N", help="End the recording after N steps.")
]
_FOR: Final = (
    "End the recording after a time, such as 60s or 2m, counted from the first update (without updates, from the first backward pass). "
    f"With --stop, a command in which no training is seen is ended TIME and {START_UP_S / 60:.0f} minutes after its start."
)
ForOption = Annotated[str | None, typer.Option("--for", metavar="TIME", help=_FOR)]
_STOP: Final = f"End the training with the recording, as Ctrl-C would; it has {StopLimits.interrupt_s:.0f} s to clean up."
StopOption = Annotated[bool, typer.Option("--stop", help=_STOP)]
LevelOption = Annotated[
    int,
    typer.Option(
        "--level",
        parser=whole_number("--level", least=0, most=2),
        metavar="0|1|2",
        help="How much is recorded: 0 steps and waits, 1 causes, 2 everything.",
    ),
]
CaptureOption = Annotated[
    str | None,
    typer.Option("--capture", metavar="[FIRST-LAST]", help=f"Profile a few steps too, as the framework does ({USUAL_CAPTURE})."),
]
StatusOption = Annotated[bool, typer.Option("--status", help="Write the progress to standard error.")]
NoTitleOption = Annotated[
    bool, typer.Option("--no-title", help=f"Leave the terminal's title alone, as {ENV_NO_TITLE}=1 does for every run.")
]
WithOption = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="LEVER", help="Change the training, such as autocast=bf16: its results change too. May be repeated."),
]
