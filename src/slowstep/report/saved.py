"""The last lines of a report: what it left out, where its recording lies, and the command that shows more of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from slowstep.command_words import analyze
from slowstep.harmless import for_shell
from slowstep.record.launching.folder import as_typed
from slowstep.report.left_out import LeftOut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slowstep.report.canvas import Canvas

_LABEL_CELLS: Final = 11


def draw_saved(canvas: Canvas, run: Mapping[str, Any], left_out: LeftOut | None = None, prompt: str = "") -> None:
    """Draw the lines for what `run["recording"]` names. A recording can be looked at again; of a trace, only what was read is said."""
    left_out = left_out or LeftOut(verbose=True)
    recording = run.get("recording")
    is_trace = "trace" in run
    if missing := left_out.words():
        # Of a recording the last line says how to see them: whether it holds a report.json, and of this rank, depends on who made it.
        where = " (--verbose, or --json FILE)" if is_trace or recording is None else ""
        _labelled(canvas, "Not shown", missing + where, "dim")
    if recording is None:
        return
    path = for_shell([as_typed(recording)])
    if is_trace:
        _labelled(canvas, "Report of", path, "")
        return
    _labelled(canvas, "Saved", path, "")
    verbose = ("--verbose",) if missing else ()
    command = f"{prompt}{analyze(*verbose, *_rank(run), as_typed(recording))}"
    # A command is left whole, to be copied.
    canvas.line(("More" if missing else "Again").ljust(_LABEL_CELLS), " ", (command, "cyan"))


def draw_kept(canvas: Canvas, folder: str | None, *, cells: int = _LABEL_CELLS) -> None:
    """Say in which recording a report is kept; labels are `cells` wide."""
    if folder is not None:
        canvas.prose(for_shell([as_typed(folder)]), label="Saved".ljust(cells), label_style="dim")


def _rank(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The option that shows the same one of several ranks."""
    rank = run.get("rank")
    return () if rank is None or len(run.get("rank_rows") or ()) < 2 else ("--rank", str(rank))


def _labelled(canvas: Canvas, label: str, text: str, style: str) -> None:
    canvas.prose(text, label=label.ljust(_LABEL_CELLS), label_style="dim", style=style)
