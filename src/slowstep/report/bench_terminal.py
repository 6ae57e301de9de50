"""What `slowstep bench` measured, on one screen: the halves, what the loader does with its time, its curve, the whole, the next command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from slowstep.levers.workers import LEAST_ADDED
from slowstep.report.bench_pipeline import draw_pipeline
from slowstep.report.canvas import clauses
from slowstep.report.drawn_parts import draw_part
from slowstep.report.saved import draw_kept
from slowstep.units import UNKNOWN, format_count, format_duration, format_number, format_share

if TYPE_CHECKING:
    from slowstep.document.bench import BenchRow, FigureRow, LoaderRow, PointRow, StageRow, WholeRow
    from slowstep.document.report import Report
    from slowstep.report.canvas import Canvas

# From this width on the parts have bars, and a column of what leaving them out saves.
_WITH_BARS: Final = 64
_LABEL_CELLS: Final = 15
_NAME_CELLS: Final = 26
_MS_CELLS: Final = 11
_SHARE_CELLS: Final = 7
_WORKER_CELLS: Final = 9
_RATE_CELLS: Final = 26
# What takes a smaller share of the time is in the JSON report only.
_LEAST_ALONE: Final = 0.01
# Rows of the table of stages; the smaller ones are said in one.
_STAGES_SHOWN: Final = 9
# Of the bytes of the batches. What workers and training say to each other is read, too: 9 KB for a batch of 200 KB were measured.
_NEXT_TO_NOTHING: Final = 0.1
# A tenth of what a disk gives that seeks for every 4 KiB (a hundred times a second, 0.4 MB/s) keeps no loader waiting.
_LEAST_MB_PER_S: Final = 0.04
WORDS: Final = {
    "cpu": "CPU-BOUND",
    "storage": "DISK-BOUND",
    "network": "NETWORK-BOUND",
    "blocked": "BLOCKED",
    "transport": "TRANSPORT-BOUND",
    "start": "START-BOUND",
    "undetermined": "UNDETERMINED",
}


def draw_bench(canvas: Canvas, report: Report) -> None:
    """Draw the page of a report with a section `bench`."""
    bench = report["bench"]
    draw_part(canvas, _draw_header, report)
    for draw in (_draw_stages, draw_pipeline, _draw_sweep, _draw_bound, _draw_whole):
        draw_part(canvas, draw, bench)
    draw_part(canvas, _draw_next, report)
    draw_kept(canvas, cast("dict[str, Any]", report["run"]).get("recording"), cells=_LABEL_CELLS)


def _draw_header(canvas: Canvas, report: Report) -> None:
    run, bench = report["run"], report["bench"]
    loader = bench["loader"]
    startup_s = run["startup_s"]
    began = "" if startup_s is None else f", the first {format_duration(startup_s * 1e9)} before training began"
    canvas.prose(f"{_done(bench)} {format_duration((run['duration_s'] or 0.0) * 1e9)}{began}", label=f"{run['name']}:", hang=2)
    if loader is not None:
        canvas.prose(clauses(_loader_facts(loader)), hang=2)
    if bench["reason"] is not None:
        label = "Not measured:" if loader is None and bench["compute"] is None else "Partial:"
        canvas.prose(bench["reason"], label=label, label_style="yellow", hang=2)
    for note in run.get("notes", []):
        canvas.prose(note, label="Note:", label_style="yellow", hang=2)


def _done(bench: BenchRow) -> str:
    """What was measured, or was not, before the time that it took."""
    loader, compute = bench["loader"], bench["compute"]
    if bench["half"] == "data":
        return "its loader alone not measured, after" if loader is None else "its loader measured alone, in"
    is_known = compute is not None and compute["samples_per_s"] is not None
    return "its compute measured on cached batches, in" if is_known else "its compute on cached batches not measured, after"


def _loader_facts(loader: LoaderRow) -> list[str]:
    size, count = loader["batch_size"], loader["workers"]
    workers = "threads of the framework" if count is None else format_count(count, "worker") if count else "no workers"
    length = loader["dataset_length"]
    data = "a stream" if loader["stream"] else "samples not counted" if length is None else f"{length:,} samples"
    facts = [f"{loader['dataset']} ({data})", f"batch size {UNKNOWN if size is None else size}", workers]
    if loader["prefetch_factor"]:
        facts.append(f"prefetch {loader['prefetch_factor']}")
    if loader["start_s"] is not None:
        facts.append(f"first batch after {format_duration(loader['start_s'] * 1e9)}")
    share = "" if loader["from_storage"] is None else f" ({format_share(loader['from_storage'])} of the bytes came from storage)"
    facts.append(f"page cache {loader['page_cache']}{share}")
    return facts


def _draw_stages(canvas: Canvas, bench: BenchRow) -> None:
    rows, reason = bench["stages"], bench["stages_reason"]
    if rows:
        canvas.blank()
        heads = "share".rjust(_SHARE_CELLS) + "ms/sample".rjust(_MS_CELLS)
        canvas.edges([("what a sample takes", "bold")], [(heads + "left out".rjust(_MS_CELLS) * (canvas.width >= _WITH_BARS), "dim")])
    shown = sorted(rows, key=lambda row: -row["share"])[:_STAGES_SHOWN]
    for row in [row for row in rows if row in shown]:
        _draw_stage(canvas, row, max(each["share"] for each in rows))
    if len(rows) > len(shown):
        canvas.prose(f"{format_count(len(rows) - len(shown), 'smaller part')} in the JSON report only", style="dim", indent=2)
    # What ended it all stands above.
    if bench["half"] == "data" and reason is not None and reason != bench["reason"]:
        canvas.prose(reason, label="Not all parts:", label_style="yellow", hang=2)


def _draw_stage(canvas: Canvas, row: StageRow, largest: float) -> None:
    name = row["name"] if row["kind"] != "transform" else f"  {row['name']}"
    share, ms = format_share(row["share"]).rjust(_SHARE_CELLS), format_number(row["ms_per_sample"]).rjust(_MS_CELLS)
    if canvas.width >= _WITH_BARS:
        left_out = "" if row["left_out_ms"] is None else format_number(max(row["left_out_ms"], 0.0))
        room = canvas.width - _NAME_CELLS - _SHARE_CELLS - 2 * _MS_CELLS - 2
        bar = (canvas.glyphs.bar * round(room * row["share"] / largest)).ljust(room)
        canvas.line(canvas.cut(name, _NAME_CELLS).ljust(_NAME_CELLS), f" {bar} ", (share, "bold"), ms, left_out.rjust(_MS_CELLS))
    else:
        canvas.edges([(name, "")], [(share, "bold"), (ms, "")])
    if row["note"] is not None:
        canvas.prose(row["note"], style="dim", indent=2)


def _draw_sweep(canvas: Canvas, bench: BenchRow) -> None:
    sweep = bench["sweep"]
    if sweep is None:
        return
    canvas.blank()
    is_known = any(point["samples_per_s"] is not None for point in sweep["points"])
    unit = "samples/s" if is_known else "batches/s"
    canvas.line(("workers".ljust(_WORKER_CELLS), "bold"), (unit, "bold"))
    rates = [_rate(point) for point in sweep["points"]]
    largest = max((rate["value"] for rate in rates if rate is not None), default=1.0)
    for point, rate in zip(sweep["points"], rates, strict=True):
        room = canvas.width - _WORKER_CELLS - _RATE_CELLS - 1
        mark = "*" if bench["loader"] is not None and point["workers"] == bench["loader"]["workers"] else ""
        text = canvas.cut(point["reason"] or UNKNOWN, room + _RATE_CELLS) if rate is None else _interval(rate)
        bar = "" if rate is None else canvas.glyphs.bar * max(round(room * rate["value"] / largest), 1)
        canvas.line(f"{point['workers']}{mark}".ljust(_WORKER_CELLS), text.ljust(_RATE_CELLS), " ", (bar, "cyan"))
    own = None if bench["loader"] is None else bench["loader"]["workers"]
    canvas.prose(_bend(sweep["bend"], own, sweep["points"]), style="dim")
    if any(map(_lacks_an_end, rates)):
        canvas.prose("an interval that lacks an end is of too few batches to know it", style="dim", indent=2)


def _rate(point: PointRow) -> FigureRow | None:
    return point["samples_per_s"] or point["batches_per_s"]


def _bend(bend: int | None, own: int | None, points: list[PointRow]) -> str:
    """What the curve says of more workers than `bend`, the fewest that no others are surely faster than."""
    if bend is None:
        return "* current; too few batches were read for a curve"
    known = [point["workers"] for point in points if _rate(point) is not None]
    if bend == known[-1]:
        return f"* current; the curve still rises at {format_count(bend, 'worker')}"
    added = _added(bend, points)
    if added >= LEAST_ADDED:
        than = f"more than {format_count(bend, 'worker')}" if bend else "workers"
        return f"* current; {than} added {format_share(added)}, which may be chance"
    more = f"more workers {_more(added)}"
    if bend == own:
        return f"* current; {more}"
    enough = "no workers are needed" if not bend else f"{format_count(bend, 'worker')} {'is' if bend == 1 else 'are'} enough"
    return f"* current; {enough}: {more}"


def _added(bend: int, points: list[PointRow]) -> float:
    """What more workers than those at the bend add to the loader's speed, at best, as a share of it."""
    rates = {point["workers"]: rate["value"] for point in points if (rate := _rate(point)) is not None}
    return max(rate for workers, rate in rates.items() if workers > bend) / rates[bend] - 1


def _more(added: float) -> str:
    return "are slower" if added <= -LEAST_ADDED else "add nothing" if added <= 0 else f"add under {format_share(LEAST_ADDED)}"


def _draw_bound(canvas: Canvas, bench: BenchRow) -> None:
    bound = bench["bound"]
    if bound is None:
        return
    canvas.blank()
    canvas.prose(bound["sentence"], label=f"{WORDS[bound['kind']]}:", label_style="bold red", hang=0)


def _draw_whole(canvas: Canvas, bench: BenchRow) -> None:
    loader, compute, whole = bench["loader"], bench["compute"], bench["whole"]
    canvas.blank()
    if loader is not None:
        size = "" if loader["mb_per_s"] is None else f", {_interval(loader['mb_per_s'])} MB/s of batches"
        lacks = "" if loader["samples_per_s"] is None or loader["reason"] is None else f" ({loader['reason']})"
        _labelled(canvas, "Loader alone", _samples(loader["samples_per_s"], loader["reason"]) + size + lacks)
        _draw_sources(canvas, loader)
    if compute is not None:
        _labelled(canvas, "Compute alone", _samples(compute["samples_per_s"], compute["reason"]))
    if whole is not None:
        _draw_alone(canvas, whole)
        _labelled(canvas, "Together", f"{_samples(whole['predicted'], None)} predicted: {_sign(whole)}")
        _labelled(canvas, "The training", _samples(whole["real"], None))
        canvas.prose(whole["sentence"])
    elif compute is not None:
        _labelled(canvas, "The training", _samples(compute["as_is_samples_per_s"], compute["reason"]))
    if compute is not None and compute["samples_per_s"] is not None:
        canvas.prose("95 % intervals, with what other starts of the script may differ by", style="dim")


def _draw_next(canvas: Canvas, report: Report) -> None:
    if "next_command" not in report["run"]:
        return
    canvas.prose(report["bench"]["next_because"], label="Why next".ljust(_LABEL_CELLS), label_style="dim")
    canvas.line(("Next".ljust(_LABEL_CELLS), "bold"), " ", (report["run"]["next_command"], "bold cyan"))


def _sign(whole: WholeRow) -> str:
    """What of the halves makes the whole."""
    if whole["cores_bound"]:
        return "all that the cores can do"
    return "the slower of the two" if whole["how"] == "max" else "both times added up"


def _draw_sources(canvas: Canvas, loader: LoaderRow) -> None:
    """What comes in for the batches, where that is not next to nothing: files may hold more or less than what is made of them."""
    batches, read, received = loader["mb_per_s"], loader["read_mb_per_s"], loader["received_mb_per_s"]
    least = max(_LEAST_MB_PER_S, 0.0 if batches is None else _NEXT_TO_NOTHING * batches["value"])
    stored = loader["storage_mb_per_s"]
    if read is not None and stored is not None and max(read["value"], stored["value"]) > least:
        from_storage = f"{_interval(stored)} MB/s" if stored["value"] else "nothing"
        _labelled(canvas, "  reads", f"{_interval(read)} MB/s by read calls, {from_storage} from storage")
    if received is not None and received["value"] > least:
        _labelled(canvas, "  receives", f"{_interval(received)} MB/s over the network, with whatever else runs here")


def _draw_alone(canvas: Canvas, whole: WholeRow) -> None:
    """What of the training's time is beside nothing, though the halves run beside each other."""
    least_ms = _LEAST_ALONE * 1e3 / whole["predicted"]["value"]
    if (ms := whole["receiving_ms_per_sample"]) >= least_ms:
        _labelled(canvas, "Receiving", f"{format_number(ms)} ms/sample to receive ready batches: in neither half, added to the compute")
    if (ms := whole["starting_ms_per_sample"]) >= least_ms:
        _labelled(canvas, "New epochs", f"{format_number(ms)} ms/sample until first batches come: part of the loader, without compute")


def _labelled(canvas: Canvas, label: str, text: str) -> None:
    canvas.prose(text, label=label.ljust(_LABEL_CELLS))


def _samples(figure: FigureRow | None, reason: str | None) -> str:
    if figure is not None:
        return f"{_interval(figure)} samples/s{', from few batches' if _lacks_an_end(figure) else ''}"
    return f"not measured ({reason})" if reason else "not measured"


def _interval(figure: FigureRow) -> str:
    low, high = figure["low"], figure["high"]
    if low is None and high is None:
        ends = "no interval"
    elif low is None:
        ends = f"up to {format_number(high)}"
    else:
        ends = f"{format_number(low)} or more" if high is None else f"{format_number(low)}-{format_number(high)}"
    return f"{format_number(figure['value'])} ({ends})"


def _lacks_an_end(figure: FigureRow | None) -> bool:
    return figure is not None and None in (figure["low"], figure["high"])
