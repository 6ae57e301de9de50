"""`slowstep bench data|compute`: one half of a training alone, and what both halves make together."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer
from typer.core import TyperGroup

from slowstep.cli.border import say
from slowstep.cli.durations import parse_duration_option
from slowstep.cli.options.report import Json, Out
from slowstep.cli.options.sandbox import CommandWords, SandboxKind, Seed, Writes, check_can_measure
from slowstep.cli.prove_progress import tell_on
from slowstep.cli.terminated import cleaning_up
from slowstep.cli.user_command import SCRIPT, UserCommand, can_be_started, check_json_target
from slowstep.close_names import close_names
from slowstep.errors import INTERRUPTED_CODE, BadUsage, UnwritableOutput
from slowstep.harmless import for_shell
from slowstep.reason_words import sentence
from slowstep.report.json import REPORT_FILE, dumps, show_and_write, write
from slowstep.workflow.bench_request import BenchRequest, Half

# What measures and draws is imported where it is called: help, and what is refused, wait for nothing of it.
if TYPE_CHECKING:
    from collections.abc import Callable

    from slowstep.document.report import Report
    from slowstep.workflow.bench_act import BenchMeasurements


# What others call them.
_SYNONYMS: Final = {"loader": "data", "dataloader": "data", "input": "data", "model": "compute", "step": "compute"}
_HALVES: Final = "{data} measures its loader alone, {compute} its compute alone"


class Halves(TyperGroup):
    """The two halves of a training, of which one must be named before the command."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind the command's name in the help text."""
        return ["|".join(self.commands), "[OPTIONS]", "COMMAND..."]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options of the group, which has none but help. Raises BadUsage for those of its halves, and for a module, `-m NAME`."""
        takes = {"-m", *(option for half in self.commands.values() for parameter in half.params for option in parameter.opts)}
        if args and args[0] not in ctx.help_option_names and args[0].partition("=")[0] in takes:
            raise BadUsage(f"which half? {_both_halves(args)}")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The half, its name and what it gets. Raises BadUsage for a name that is none, which most often is the user's command already."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise BadUsage(_meant(args, list(self.commands)))
        return super().resolve_command(ctx, args)


def _meant(words: list[str], halves: list[str]) -> str:
    """What was probably meant by words of which the first is no half."""
    first, rest = words[0], words[1:]
    close = close_names(first.lower(), halves, most=1)
    half = _SYNONYMS.get(first.lower()) or (close[0] if close else None)
    if half is not None and not first.endswith(SCRIPT):
        return f"there is no half {first!r}. Did you mean: {for_shell(('slowstep', 'bench', half, *rest))}"
    if first.endswith(SCRIPT) or can_be_started(first):
        return f"which half? {_both_halves(words)}"
    return f"there is no half {first!r}, and no such command: {_both_halves(rest or ['train.py'])}"


def _both_halves(command: list[str]) -> str:
    return _HALVES.format(**{half: for_shell(("slowstep", "bench", half, *command)) for half in ("data", "compute")})


app = typer.Typer(
    cls=Halves,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Measure the loader, or the compute, of a training alone.",
)

_EXAMPLE: Final = "\b\nExample:\n  slowstep bench {} train.py"
_Budget = Annotated[str, typer.Option("--budget", metavar="TIME", help="Measure for this long, such as 60s or 3m; the start is extra.")]


@app.command(
    "data",
    cls=UserCommand,
    short_help="The loader: its speed, its parts, more and fewer workers.",
    epilog=_EXAMPLE.format("data --budget 2m"),
)
def data(
    command: CommandWords,
    budget: _Budget = "60s",
    json: Json = None,
    out: Out = None,
    allow_writes: Writes = False,
    sandbox: SandboxKind = None,
    seed: Seed = None,
) -> None:
    """Measure the training's own loader alone: its speed, its parts, more and fewer workers, and what binds it.

    It is CPU-, DISK-, NETWORK- or TRANSPORT-BOUND, or BLOCKED, by what takes over half of the time; else UNDETERMINED. "left out" is how
    many ms less a sample takes without a transform. docs/bench.md has the thresholds.

    The training runs in a sandbox, and all that it writes is discarded. Options of slowstep stand before COMMAND.
    """
    _bench(_asked("data", command, budget, out, sandbox, seed, allow_writes=allow_writes), json)


@app.command(
    "compute",
    cls=UserCommand,
    short_help="The training on cached batches, whose input costs nothing.",
    epilog=_EXAMPLE.format("compute"),
)
def compute(
    command: CommandWords,
    budget: _Budget = "60s",
    json: Json = None,
    out: Out = None,
    allow_writes: Writes = False,
    sandbox: SandboxKind = None,
    seed: Seed = None,
) -> None:
    """Measure the training on cached batches: what its compute could do if its input cost nothing.

    The training runs in a sandbox, and all that it writes is discarded. Options of slowstep stand before COMMAND.
    """
    _bench(_asked("compute", command, budget, out, sandbox, seed, allow_writes=allow_writes), json)


def _asked(
    what: Half, words: list[str], budget: str, out: str | None, sandbox: str | None, seed: int | None, *, allow_writes: bool
) -> BenchRequest:
    check_can_measure(sandbox)
    seconds = parse_duration_option(budget, "--budget")
    return BenchRequest(what=what, words=tuple(words), budget_s=seconds, out=out, allow_writes=allow_writes, sandbox=sandbox, seed=seed)


def _bench(asked: BenchRequest, json: str | None) -> None:
    check_json_target(json)
    from slowstep.workflow.bench import bench as bench_training

    with cleaning_up(), tell_on(sys.stderr) as tell:
        measured = bench_training(asked, os.environ, say=tell.say, phase=tell.phase)
    try:
        _say_failure(measured)
        _report(measured, asked, json)
    except KeyboardInterrupt:
        # The recording has no steps as they are: only this report tells what was measured.
        say("slowstep: the report was interrupted, and what was measured is lost. Measure again.")
        raise typer.Exit(INTERRUPTED_CODE) from None
    raise typer.Exit(measured.code)


def _report(measured: BenchMeasurements, asked: BenchRequest, json: str | None) -> None:
    from slowstep.report.terminal import show
    from slowstep.workflow.bench_report import make_report

    report = kept(lambda names_place: make_report(measured, asked, names_place=names_place))
    if json == "-":
        sys.stdout.write(dumps(report))
    else:
        show_and_write(lambda: show(report, sys.stdout), report, json)


def kept(make: Callable[[bool], Report]) -> Report:
    """The report, once it is kept in its recording, whose own steps do not say what was measured; where that fails one that names no place:
    `make` makes one that does, or does not.
    """
    report = make(True)
    folder = cast("dict[str, Any]", report["run"]).get("recording")
    try:
        if folder is not None:
            write(report, Path(folder) / REPORT_FILE)
    except UnwritableOutput:
        return make(False)
    return report


def _say_failure(measured: BenchMeasurements) -> None:
    """What went wrong with the training itself, and the end of what it printed then."""
    ending = measured.ending
    if ending is not None and ending.exit_code:
        say(f"slowstep: the command ended with exit code {ending.exit_code}. The end of its output:")
        for line in ending.output.splitlines():
            say(f"    {line}")
    if not measured.notes:
        say(f"slowstep: {'nothing was measured' if measured.reason is None else sentence(measured.reason)}.")
