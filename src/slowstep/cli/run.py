"""`slowstep run`: run a training command, record it, diagnose it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

import typer

from slowstep.cli.border import say
from slowstep.cli.durations import parse_duration_option
from slowstep.cli.mistakes import WrongUse
from slowstep.cli.options.recording import (
    USUAL_CAPTURE,
    CaptureOption,
    ForOption,
    LevelOption,
    NoTitleOption,
    StatusOption,
    StepsOption,
    StopOption,
    WithOption,
)
from slowstep.cli.options.report import Json, Out, Verbose, Warmup
from slowstep.cli.run_report import RunReport
from slowstep.cli.user_command import Alone, UserCommand, check_json_target
from slowstep.errors import BadUsage, CommandNotStarted, SlowstepError
from slowstep.prove.lever_check import check
from slowstep.record.experiment.implementations import known_levers
from slowstep.record.experiment.lever import LeverSpec
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.launching.command import Command, resolve_command
from slowstep.record.launching.folder import holds_nothing, remove_folder
from slowstep.record.launching.launch import RunOptions, launch
from slowstep.record.launching.plain_run import run_plainly
from slowstep.record.system.place import find_launcher_rank
from slowstep.record.writing import format as contract

MOST_CAPTURED = 20
_STEPS: Final = re.compile(r"(\d+)-(\d+)")
# A single number too: it is no command, and the option says better what is missing.
_ONE_OR_TWO_NUMBERS: Final = re.compile(r"\d+(?:-\d+)?")
_EXAMPLES: Final = """\b
Examples:
  slowstep run train.py --epochs 1
  slowstep run --steps 500 --stop train.py     enough for a diagnosis, then end it
  slowstep run torchrun --nproc-per-node 2 train.py
  slowstep run --capture -m package.train      with the framework's own profiler for five steps

\b
Exit codes: those of COMMAND (128 + n for signal n); 125 where slowstep could
not start it, 126 where it is not executable, 127 where it is not found.
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class RunCommand(UserCommand):
    """`--capture` alone asks for the usual steps: its own are given as `--capture=FIRST-LAST`, or as the next word."""

    alone: ClassVar[Mapping[str, Alone]] = {"--capture": Alone(usual=USUAL_CAPTURE, form=_ONE_OR_TWO_NUMBERS)}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Split the words, and make a mistake in ours end with 125: every other code is the command's own."""
        try:
            return super().parse_args(ctx, args)
        except WrongUse as error:
            error.exit_code = CommandNotStarted.OWN_FAILURE
            raise
        except BadUsage as error:
            raise CommandNotStarted(str(error)) from error


@app.command("run", cls=RunCommand, epilog=_EXAMPLES)
def run(
    command: Annotated[list[str], typer.Argument(hidden=True)],
    steps: StepsOption = None,
    for_: ForOption = None,
    stop: StopOption = False,
    out: Out = None,
    json: Json = None,
    warmup: Warmup = None,
    level: LevelOption = 1,
    capture: CaptureOption = None,
    status: StatusOption = False,
    no_title: NoTitleOption = False,
    with_: WithOption = None,
    verbose: Verbose = False,
) -> None:
    """Run a training command unchanged, record it, and say what makes it slow.

    COMMAND is train.py ARGS, -m MODULE ARGS, or any command that starts Python. Options of slowstep stand before it.
    """
    seconds = _checked(for_, steps=steps, stop=stop, json=json)
    levers = _levers(with_ or [])
    wanted = None if capture is None else _captured(capture)
    _check_leaves_steps(steps, warmup=warmup, capture=wanted)
    resolved = resolve_command(command, os.environ)
    place = find_launcher_rank(os.environ)
    quiet = place is not None and not place.speaks
    if os.environ.get(contract.ENV_DISABLE):
        raise typer.Exit(_run_unrecorded(resolved, quiet=quiet))
    options = RunOptions(
        steps=steps,
        seconds=seconds,
        stop=stop,
        parent=out,
        level=level,
        warmup=warmup,
        status=status,
        title=not no_title,
        capture=wanted,
        place=place,
        levers=levers,
    )
    report = RunReport(warmup=warmup, json_target=json, verbose=verbose, quiet=quiet)
    raise typer.Exit(_run_recorded(resolved, options, report))


def _run_unrecorded(command: Command, *, quiet: bool) -> int:
    """Run the command as if slowstep was not there, and say so; returns its exit code."""
    code = run_plainly(command, os.environ)
    if not quiet:
        say(f"slowstep: {contract.ENV_DISABLE} is set, so nothing was recorded. Unset it to record.")
    return code


def _run_recorded(command: Command, options: RunOptions, report: RunReport) -> int:
    """Run the command with its recording, and show what that tells; returns the command's exit code."""
    outcome = launch(command, options, os.environ, on_recorded=report.show)
    if not outcome.reported:
        report.show(outcome.folder, seen=outcome.seen)
    if report.found_nothing and holds_nothing(str(outcome.folder)):
        remove_folder(str(outcome.folder))
    return outcome.exit_code


def _checked(for_: str | None, *, steps: int | None, stop: bool, json: str | None) -> float | None:
    try:
        seconds = None if for_ is None else parse_duration_option(for_, "--for")
        if stop and steps is None and seconds is None:
            raise BadUsage("--stop ends the training with the recording, so say when: add --steps N or --for 60s.")
        check_json_target(json)
    except SlowstepError as error:
        raise CommandNotStarted(str(error)) from error
    return seconds


def _check_leaves_steps(steps: int | None, *, warmup: int | None, capture: tuple[int, int] | None) -> None:
    """Raises CommandNotStarted where a recording of so many steps would leave none to look at: that is better known before it is made."""
    if steps is not None and warmup is not None and warmup >= steps:
        few = f"--steps {steps} and --warmup {warmup} leave no step to look at: record more of them, or leave out fewer."
        raise CommandNotStarted(f"{few} Without --warmup what to leave out is found.")
    if steps is not None and capture is not None and capture[1] > steps:
        ends = f"--steps {steps} ends the recording before the steps {capture[0]}-{capture[1]} of --capture"
        raise CommandNotStarted(f"{ends}: record more of them, or capture earlier ones.")


def _levers(texts: list[str]) -> tuple[LeverSpec, ...]:
    # Whether one has a meaning in this training is found out there, and said in the report; a typo is said here.
    if not texts:
        return ()
    try:
        specs, levers = tuple(parse_spec(text) for text in texts), known_levers()
        for spec in specs:
            check(spec, levers)
            _check_spares_files(spec, levers[spec.name].harms)
    except SlowstepError as error:
        raise CommandNotStarted(str(error)) from error
    return specs


def _check_spares_files(spec: LeverSpec, harms: str | None) -> None:
    """Raises BadUsage for a lever that needs a sandbox: this run is the user's own, and has none."""
    if harms is not None:
        raise BadUsage(
            f"--with {spec}: {harms}, and slowstep run has no sandbox to hold them back. "
            f"Try it in one: slowstep prove --levers {spec} CMD. To train without, take the saving out of the script."
        )


def _captured(text: str) -> tuple[int, int]:
    match = _STEPS.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) < int(match[1]) + MOST_CAPTURED:
        raise CommandNotStarted(f"--capture={text}: give the first and the last step, at most {MOST_CAPTURED} of them, as {USUAL_CAPTURE}.")
    return int(match[1]), int(match[2])
