"""`slowstep prove`: which lever really helps an unmodified training, by how much, with an interval."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slowstep.cli.border import say
from slowstep.cli.durations import parse_duration_option
from slowstep.cli.options.report import Json, Out
from slowstep.cli.options.sandbox import CommandWords, SandboxKind, Seed, Writes, check_can_measure
from slowstep.cli.prove_progress import tell_on
from slowstep.cli.terminated import cleaning_up
from slowstep.cli.user_command import UserCommand, check_json_target
from slowstep.errors import INTERRUPTED_CODE, BadUsage, UnwritableOutput
from slowstep.record.experiment.lever import LeverSpec
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.launching.folder import kept_words
from slowstep.report.json import dumps, show_and_write
from slowstep.workflow.prove_request import ProveRequest

# What proves and draws is imported where it is called: help, and what is refused, wait for nothing of it.
if TYPE_CHECKING:
    from slowstep.prove.patch.change import ScriptChange
    from slowstep.workflow.prove_ended import Ended

_EXAMPLES: Final = """\b
Examples:
  slowstep prove train.py                            what the findings name
  slowstep prove --levers workers=4,pin-memory train.py
  slowstep prove --all --budget 3m train.py          every lever there is
  slowstep prove --patch fix.patch train.py          and write the change as a patch
"""

_Levers = Annotated[
    list[str] | None,
    typer.Option("--levers", metavar="A,B", help="Levers to test, such as workers=4,pin-memory (default: those that the findings name)."),
]
_All = Annotated[bool, typer.Option("--all", help="Test every lever there is.")]
_Precision = Annotated[str, typer.Option("--precision", metavar="5%", help="Stop when every gain is known to within so many percent.")]
_Budget = Annotated[str, typer.Option("--budget", metavar="TIME", help="Stop testing after a time, such as 60s or 3m.")]
_Patch = Annotated[
    str | None,
    typer.Option("--patch", metavar="FILE", help="Write the change that is proved to gain most as a patch; the script stays as it is."),
]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command("prove", cls=UserCommand, epilog=_EXAMPLES)
def prove(
    command: CommandWords,
    levers: _Levers = None,
    all_: _All = False,
    precision: _Precision = "5%",
    budget: _Budget = "60s",
    seed: Seed = None,
    json: Json = None,
    out: Out = None,
    allow_writes: Writes = False,
    sandbox: SandboxKind = None,
    patch: _Patch = None,
) -> None:
    """Prove by experiment which change makes a training faster. The training runs in a sandbox, and all that it writes is discarded.

    A lever is a change that is made to the running training from outside, on and off in turn; slowstep explain lists them.

    COMMAND is train.py ARGS, -m MODULE ARGS, or any command that starts Python. Options of slowstep stand before it.
    """
    check_json_target(json)
    check_patch_target(patch)
    check_can_measure(sandbox)
    asked = ProveRequest(
        words=tuple(command),
        levers=_specs(levers or [], everything=all_),
        everything=all_,
        precision=parse_precision(precision),
        budget_s=parse_duration_option(budget, "--budget"),
        seed=seed,
        out=out,
        allow_writes=allow_writes,
        sandbox=sandbox,
    )
    from slowstep.workflow.prove import prove as prove_training

    with cleaning_up(), tell_on(sys.stderr) as tell:
        ended = prove_training(asked, os.environ, tell)
    _show_whole(ended, json)
    if patch is not None:
        for line in write_patch(patch, ended.change):
            say(line)
    raise typer.Exit(ended.code)


def _show_whole(ended: Ended, json: str | None) -> None:
    """Show what came of it. Who interrupts that is told where the recording is, and nothing else follows."""
    try:
        _show(ended, json)
    except KeyboardInterrupt:
        if ended.report is not None:
            say(f"slowstep: the report was interrupted. {kept_words(ended.report['run']['recording'])}")
        raise typer.Exit(INTERRUPTED_CODE) from None


def _specs(texts: list[str], *, everything: bool) -> tuple[LeverSpec, ...]:
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if texts and everything:
        raise BadUsage("--levers and --all exclude each other: name levers, or try all of them.")
    if texts and not names:
        raise BadUsage("--levers needs at least one lever. slowstep explain lists them.")
    return tuple(parse_spec(name) for name in dict.fromkeys(names))


def parse_precision(text: str) -> float:
    """A share from "5%" or "5", both of which are percent."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(%?)", text.strip())
    percent = float(match[1]) if match else 0.0
    if match and not match[2] and 0.0 < percent < 1.0:
        raise BadUsage(f"--precision {text}: this may be {percent * 100:g}% or {percent:g}%; say which, with the % sign.")
    if not 0.0 < percent < 100.0:
        raise BadUsage(f"--precision {text}: give percent between 0 and 100, such as 5%.")
    return percent / 100


def check_patch_target(patch: str | None) -> None:
    """Check that the file can be written, and nothing is written over by it: before the experiment starts. Raises BadUsage."""
    if patch is None:
        return
    path = Path(patch)
    if path.is_dir() or patch == "-":
        raise BadUsage(f"--patch {patch}: name a file for the patch, such as {'' if patch == '-' else patch.rstrip('/') + '/'}fix.patch.")
    if os.path.lexists(path):
        raise BadUsage(f"--patch {patch}: the file exists, and nothing is written over. Name another, or remove it first.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise BadUsage(f"--patch {patch}: there is no folder {folder}. Make it first, or name another.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadUsage(f"--patch {patch}: nothing can be written into {folder}. Name a file in another folder.")


def write_patch(patch: str, change: ScriptChange) -> list[str]:
    """Write the change as a file that `patch` and `git apply` take, and take back, where there is one. Returns what to say of it.

    Raises UnwritableOutput where the file is there by now, or cannot be written.
    """
    if change.difference is None:
        return [f"slowstep: no patch: {change.reason}"]
    try:
        with Path(patch).open("xb") as file:
            file.write(change.difference)
    except OSError as error:
        raise UnwritableOutput(f"--patch {patch} cannot be written: {error.strerror or error}.") from error
    folder = change.folder or ""
    there = "" if os.path.realpath(folder) == os.path.realpath(os.curdir) else shlex.quote(folder)
    apply = f"patch -p0{f' -d {there}' if there else ''} < {shlex.quote(patch)}"
    git = f"git{f' -C {there}' if there else ''} apply -p0 {shlex.quote(os.path.abspath(patch) if there else patch)}"
    return [f"slowstep: wrote the change of {change.place} to {patch}", f"  {apply}   (or {git}; -R takes it back)"]


def _failure(ended: Ended) -> list[str]:
    """What went wrong with the training itself, and the end of what it printed then."""
    lines = [f"slowstep: the command ended with exit code {ended.exit_code}. The end of its output:"] if ended.exit_code else []
    lines += [f"    {line}" for line in ended.output.splitlines()]
    if ended.report is None or ended.reason:
        lines.append(f"slowstep: {ended.reason or ended.ended_by}")
    return lines


def _show(ended: Ended, json: str | None) -> None:
    for line in _failure(ended):
        say(line)
    if ended.report is None:
        return
    if json == "-":
        sys.stdout.write(dumps(ended.report))
        return
    from slowstep.report.terminal import show

    report = ended.report
    show_and_write(lambda: show(report, sys.stdout), report, json)
