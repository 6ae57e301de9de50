"""The table of a pipeline that was cut after each of its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slowstep.units import UNKNOWN, format_duration, format_number

if TYPE_CHECKING:
    from slowstep.document.bench import BenchRow, CutStageRow, FigureRow, ParallelCallsRow
    from slowstep.report.canvas import Canvas

# From this width on there is a column of what all stages up to one take together.
_WIDE: Final = 64
_NAME_CELLS: Final = 30
_CELLS: Final = 11
_CALLS_CELLS: Final = 10
# What a stage needs before it gives anything is said from here on: own choice, what a reader would notice.
_LONG_START_S: Final = 1.0
_KEEPS: Final = ("Cache", "Snapshot")
_MIXES: Final = "Shuffle"


def draw_pipeline(canvas: Canvas, bench: BenchRow) -> None:
    """Draw it, and what it says; nothing where there is none."""
    if "pipeline" not in bench:
        return
    stages, dearest = bench["pipeline"]["stages"], bench["pipeline"]["dearest"]
    canvas.blank()
    heads = (
        ("samples/s" if canvas.width >= _WIDE else "").rjust(_CELLS * (canvas.width >= _WIDE))
        + "adds ms".rjust(_CELLS)
        + "CPU ms".rjust(_CELLS)
    )
    canvas.edges([("cut after", "bold")], [(heads, "dim")])
    for number, stage in enumerate(stages):
        _draw_stage(canvas, stage, is_dearest=number == dearest)
    for reason in dict.fromkeys(stage["reason"] for stage in stages if stage["reason"] is not None):
        names = ", ".join(_name(stage) for stage in stages if stage["reason"] == reason)
        canvas.prose(reason, label=f"{names}:", label_style="yellow", hang=2)
    if dearest is not None:
        canvas.prose(_dearest(stages[dearest]), style="dim")
    for sentence in _doubts(stages):
        canvas.prose(sentence, style="dim")
    if bench["pipeline"]["calls"] is not None:
        _draw_calls(canvas, stages, bench["pipeline"]["calls"])


def _draw_calls(canvas: Canvas, stages: list[CutStageRow], calls: ParallelCallsRow) -> None:
    """The curve over calls at once."""
    canvas.blank()
    canvas.edges([(f"calls at once of {_name(stages[calls['stage']])}", "bold")], [("samples/s".rjust(_CELLS), "dim")])
    largest = max((point["samples_per_s"]["value"] for point in calls["points"] if point["samples_per_s"] is not None), default=1.0)
    for point in calls["points"]:
        name = "autotune" if point["calls"] is None else f"{point['calls']}"
        rate = point["samples_per_s"]
        room = canvas.width - _CALLS_CELLS - _CELLS - 2
        bar = "" if rate is None else canvas.glyphs.bar * max(round(room * rate["value"] / largest), 1)
        label = f"{name}{'*' * (point['calls'] == calls['own'])}".ljust(_CALLS_CELLS)
        canvas.edges([(label, ""), (bar, "cyan")], [(_value(rate).rjust(_CELLS), "")])
    canvas.prose("* current; of the stages up to it alone", style="dim")


def _draw_stage(canvas: Canvas, stage: CutStageRow, *, is_dearest: bool) -> None:
    name = canvas.cut(_name(stage), min(_NAME_CELLS, canvas.width - 2 * _CELLS - 1))
    rate = _value(stage["samples_per_s"]).rjust(_CELLS) if canvas.width >= _WIDE else ""
    cpu = stage["added_cpu_ms_per_sample"]
    added = (_value(stage["added_ms_per_sample"]).rjust(_CELLS), "bold" if is_dearest else "")
    canvas.edges([(name, "")], [(rate, ""), added, ((UNKNOWN if cpu is None else format_number(cpu)).rjust(_CELLS), "")])


def _name(stage: CutStageRow) -> str:
    kinds, function = " + ".join([stage["kind"], *stage["then"]]), stage["function"]
    return kinds if function is None else f"{kinds} {function.rpartition('.')[2]}"


def _value(figure: FigureRow | None) -> str:
    return UNKNOWN if figure is None else format_number(figure["value"])


def _dearest(stage: CutStageRow) -> str:
    place = "" if stage["place"] is None else f" ({stage['place']}{', in Python' if stage['in_python'] else ''})"
    return f"{_name(stage)}{place} adds most: {_value(stage['added_ms_per_sample'])} ms/sample"


def _doubts(stages: list[CutStageRow]) -> list[str]:
    """What is to be known of stages whose cost is not the same all the time."""
    found = []
    if stages[0]["reads_several"]:
        found.append(f"{stages[0]['kind']} reads several pipelines, which were not cut")
    if any(stage["kind"] in _KEEPS for stage in stages):
        found.append("a cache gives what it has kept once an epoch has ended, and until then costs what the stages before it do")
    starts = [stage for stage in stages if stage["kind"] == _MIXES and (stage["start_s"] or 0.0) >= _LONG_START_S]
    if starts:
        took = format_duration((starts[0]["start_s"] or 0.0) * 1e9)
        found.append(f"to fill the buffer of {_MIXES} takes {took} before a first element, in no figure of the table")
    if any(stage["added_ms_per_sample"] is not None and stage["added_ms_per_sample"]["value"] < 0 for stage in stages):
        found.append("below zero: the stage lets those before it work at the same time, or its cost is smaller than what chance makes")
    return found
