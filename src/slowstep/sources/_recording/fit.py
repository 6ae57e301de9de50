"""Whether a line of a process's notes is what a line of its kind must be: others write into files too, and processes are killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from slowstep.sources._recording.graph_work_fit import TYPE_COUNTS, UNUSED_COUNTS, graph_products_fit, graph_work_fits, unused_fits
from slowstep.sources._recording.note_types import FitKind, is_of, is_place
from slowstep.sources._recording.padding_fit import padded_fits, shapes_fit
from slowstep.sources._recording.pipeline_fit import nodes_fit, pipeline_fits
from slowstep.sources._recording.stored_reads_fit import stored_reads_fit

# Of anything, exabytes or the ns of the clock of the day among them, until 2116.
MOST: Final = 2**62
# What is smaller was never measured in any unit, and what is divided by it is beyond all numbers.
LEAST: Final = 1e-12
NoteLine = dict[str, Any]

# Of a function that was traced again: the argument, what of it changed, and how it is written before and after that.
_CHANGE_TEXTS: Final = 4
_PLACE = ("file", "function")
_UNITS = ("_ns", "_bytes", "_mhz", "_mw")
# Taken from a clock or added up of such, never from the difference of two sums: no less than nothing.
_DURATIONS = ("wall_ns", "total_ns", "spent_ns", "counting_ns")
# Older recordings have none of these.
_SINCE = ("early", "late")
_CALLED = ("first_line", "calls", "hooks", "inside", "gradient", "nothing", "nodes", "of_nodes")


def fits(note: NoteLine) -> bool:
    """Whether what is read from a line of its kind is there and of its type."""
    kind = str(note.get("kind"))
    if not _is_measured(note):
        return False
    needed = all(is_of(note.get(key), of) for key, of in _NEEDED.get(kind, {}).items())
    optional = all(note.get(key) is None or is_of(note[key], of) for key, of in _OPTIONAL.get(kind, {}).items())
    return needed and optional and (kind not in _NESTED or _NESTED[kind](note))


def _is_measured(value: Any, key: str = "") -> bool:
    """Whether all numbers in it fit into 64 bits, and those that are times or sizes, by their names, can have been measured."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_measured(inner, name) for name, inner in value.items())
    if isinstance(value, list):
        return all(_is_measured(inner, key) for inner in value)
    if isinstance(value, float):
        return value == 0 or LEAST <= abs(value) < MOST
    if key in _DURATIONS and isinstance(value, int) and value < 0:
        return False
    if key.endswith(_UNITS):
        return not isinstance(value, int) or abs(value) < MOST
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _cost_fits(note: NoteLine) -> bool:
    """What recording has cost so far is never less than nothing."""
    return all((note.get(key) or 0) >= 0 for key in _OPTIONAL["cost"])


_COUNTED = ("most", "elements", "products", "most_products", "sorted", "scattered", "given")


def _operations_fit(note: NoteLine) -> bool:
    return all((note.get(key) or 0) >= 0 for key in ("fewest", *_COUNTED))


def _dispatched_fit(note: NoteLine) -> bool:
    return all((note.get(key) or 0) >= 0 for key in (*_DISPATCHED, "delay_ns"))


def _tables_fit(note: NoteLine) -> bool:
    """How large each table is and how often it was seen is known, and nothing was counted less than never."""
    tables = note.get("tables")
    return isinstance(tables, list) and all(isinstance(table, dict) and _table_fits(table) for table in tables)


def _table_fits(table: NoteLine) -> bool:
    counts = all(is_of(table.get(key), int) and table[key] > 0 for key in ("rows", "width", "item_bytes", "lookups", "seen"))
    others = all(table.get(key) is None or (is_of(table[key], int) and table[key] >= 0) for key in ("optimizer", "ids", "backward_ns"))
    return counts and others and all(is_of(table.get(key), bool) for key in ("is_sparse", "is_dense_anyway"))


def _retrace_fits(note: NoteLine) -> bool:
    """Whether it is no less than the first one, and each of its changes has all texts."""
    return note["number"] > 0 and all(is_of(change, list[str]) and len(change) == _CHANGE_TEXTS for change in note["changes"])


def _path_fits(note: NoteLine) -> bool:
    frames, calls = note.get("frames"), note.get("calls")
    if not isinstance(frames, list) or not all(
        isinstance(frame, list) and len(frame) == 4 and all(map(is_of, frame, (str, str, int, int))) for frame in frames
    ):
        return False
    # Older recordings have no calls.
    return calls is None or (isinstance(calls, list) and len(calls) == len(frames) and all(map(_call_fits, calls)))


def _call_fits(call: object) -> bool:
    return call is None or (isinstance(call, list) and len(call) == 3 and all(is_of(number, int) for number in call))


def _iterator_fits(note: NoteLine) -> bool:
    """Whether its classes are file and name each, and the functions that made its loader file, name and first line."""
    classes = [*(note.get("data_set_classes") or ()), *(note.get("sampler_classes") or ())]
    functions = note.get("made_in") or []
    if not isinstance(functions, list) or any(len(each) != 2 for each in classes):
        return False
    return all(map(is_place, functions))


def _calls_fit(note: NoteLine) -> bool:
    functions = note.get("functions")
    if not isinstance(functions, list) or not all(isinstance(function, dict) for function in functions):
        return False
    numbers = ("line", "total_ns", "own_ns")
    return all(
        all(is_of(f.get(key), int) for key in numbers)
        and all(is_of(f.get(key), str) for key in ("file", "function"))
        and isinstance(f.get("callees"), list)
        and (f.get("calls") is None or is_of(f["calls"], int))
        and all(_is_edge(edge, len(functions)) for edge in f["callees"])
        for f in functions
    )


def _is_edge(edge: Any, functions: int) -> bool:
    """Whether it names one of the functions and a time."""
    return isinstance(edge, list) and len(edge) == 2 and all(is_of(each, int) for each in edge) and 0 <= edge[0] < functions


def _builtins_fit(note: NoteLine) -> bool:
    rows = note.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return False
    return all(
        is_of(row.get("function"), str)
        and all(is_of(row.get(key), int) for key in ("calls", "total_ns"))
        and (row.get("file") is None or is_of(row["file"], str))
        and (row.get("line") is None or is_of(row["line"], int))
        and isinstance(row.get("callers"), list)
        and all(isinstance(c, list) and len(c) == 5 and all(map(is_of, c, (str, str, int, int, int))) for c in row["callers"])
        for row in rows
    )


def _lines_fit(note: NoteLine) -> bool:
    rows: Any = note.get("lines")
    fits = _rows_fit(rows, ("first_line", "line", "count", "ns")) and _rows_fit(note.get("functions", []), _CALLED)
    if not fits or not all(entry.get(key) is None or is_of(entry[key], int) for entry in note.get("functions", ()) for key in _SINCE):
        return False
    return all(row.get("operations") is None or is_of(row["operations"], int) for row in rows)


def _gap_lines_fit(note: NoteLine) -> bool:
    rows: Any = note.get("lines")
    fits = _rows_fit(rows, ("first_line", "line", "ns", "calls"))
    callees = [row.get("callees") for row in rows] if fits else []
    return fits and all(_rows_fit(each, ("first_line",)) and all(_call_fits(callee.get("call")) for callee in each) for each in callees)


def _rows_fit(rows: Any, numbers: tuple[str, ...]) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, dict) and all(is_of(row.get(key), int) for key in numbers) and all(is_of(row.get(key), str) for key in _PLACE)
        for row in rows
    )


def _loops_fit(note: NoteLine) -> bool:
    functions = note.get("functions")
    return isinstance(functions, list) and all(_is_function_with_loops(entry) for entry in functions)


def _is_function_with_loops(entry: Any) -> bool:
    if not isinstance(entry, list) or [type(value) for value in entry] != [str, str, int, list]:
        return False
    return all(isinstance(span, list) and len(span) == 2 and all(is_of(line, int) for line in span) for span in entry[3])


_FRAME: Mapping[str, FitKind] = {"file": str, "function": str, "line": int, "first_line": int}
_GPU_NUMBERS = (
    "memory_bytes",
    "most_sm_mhz",
    "most_memory_mhz",
    "power_limit_mw",
    "default_power_limit_mw",
    "link_generation",
    "link_lanes",
)
_DISPATCHED = (
    *("at_ns", "wall_ns", "cpu_ns", "operations", "operations_ns", "operations_cpu_ns", "low_ns", "above_low_ns"),
    *("above_four_times_ns", "above_sixteen_times_ns", "timing_ns", "short_gaps_ns", "gaps_ns", "capped_gaps_ns"),
)
_NEEDED: Mapping[str, Mapping[str, FitKind]] = {
    "text": {"id": int, "text": str},
    "place": {"text": int, "file": str, "line": int},
    "frame": {"id": int, **_FRAME},
    "stack": {"id": int, "frames": list[int]},
    "thread": {"id": int, "name": str},
    "iterator": {"id": int, "loader": int},
    "training_frame": _FRAME,
    "forward_frame": _FRAME,
    "calls": {"of": str, "stretches": int},
    "loops": {"optimizer": int},
    "loops_around": {"optimizer": int},
    "prompt": {"at_ns": int},
    "disk": {"id": int, "name": str},
    "gpu": {"id": int},
    "gap_lines": {"gaps": int, "call_ns": float},
    "untimed": {"why": str},
    "builtins": {"samples": int, "wall_ns": int},
    "batch": {"tensors": int, "bytes": int, "spare_bytes": int, "types": dict[str, int]},
    "padded": {"at_ns": int, "iterator": int, "batch": int, "arrays": list},
    "shapes": {"at_ns": int, "nodes": int, "shapes": list},
    "stored_reads": {"looks": list},
    "retrace": {"function": str, "at_ns": int, "number": int, "changes": list},
    "work": {"at_ns": int, "unknown": list[str], "parts": list, "weights": list}
    | dict.fromkeys(("elements", "dear", "scattered", "products", "whole"), int),
    "products": {"at_ns": int, "rows": list},
    "unused": {"at_ns": int, "state": str, "looks": int, "found": int},
    "cells": {"cells": dict[str, int]},
    "capture": {"state": str, "begin_ns": int, "end_ns": int},
    "pipeline": {"id": int, "stages": list},
    "pipeline_nodes": {"id": int, "at_ns": int, "nodes": list},
    "pipeline_unread": {"id": int, "why": str},
    "operations": {"framework": str, "function": int, "fewest": int},
    "dispatched": {"asynchronous": bool} | dict.fromkeys(_DISPATCHED, int),
}
_OPTIONAL: Mapping[str, Mapping[str, FitKind]] = {
    "process": {"role": str, "cwd": str, "python": str, "cpu_quota": float, "boot_id": str, "worker": int}
    | {"pid": int, "ppid": int, "started_ns": int, "format": int, "cores_allowed": int, "script": str, "torch": str, "env": dict[str, str]}
    | {"memory_available_bytes": int, "import_path": list[str], "physical_cores": int, "cpu_flags": list[str]},
    "iterator": {"num_workers": int, "prefetch_factor": int, "batch_size": int, "workers": list[int], "dataset": str, "collate": str}
    | {"snapshot_every": int, "changed": list[str], "generator": str}
    | {"persistent": bool, "marked": bool, "divides": bool, "draws": bool, "context": str}
    | {"collate_file": str, "collate_line": int, "is_default_collate": bool, "dataset_length": int, "batches": int}
    | {"framework": str, "data_set_classes": list[list[str]], "sampler_classes": list[list[str]]},
    "training_frame": {"optimizer": int},
    "training_path": {"optimizer": int},
    "hook": {"name": str, "state": str, "reason": str},
    "experiment": {"begin_ns": int},
    "batch": {"array_bytes": int},
    "frame": {"column": int, "end_line": int, "end_column": int, "called": str, "in_loop": bool},
    "lines": {"of": str, "counting_ns": int, "complete": bool},
    "facts": {
        "framework": str,
        "optimizers": bool,
        "asynchronous": bool,
        "waits_inside": bool,
        "computes_with": str,
        "reads": str,
        "steps_per_epoch": int,
        "cuda_available": bool,
        "threads": int,
        "accelerators": dict[str, int],
        "accelerator_built": bool,
        "world_size": int,
        "rank": int,
    },
    "rank": {"rank": int, "world_size": int},
    "capture": {"file": str, "reason": str, "first": int, "last": int},
    "startup": {"import_began_ns": int, "activated_ns": int},
    "optimizer": {
        "id": int,
        "params": int,
        "tensors": int,
        "shapes": int,
        "dtypes": dict[str, int],
        "device": str,
        "type": str,
        "fused": bool,
        "momentum": bool,
        "decays": bool,
        "shares": int,
    }
    | {"by_hand": bool, "framework": str, "tallest": list[int]},
    "calls": {"wall_ns": int, "slowdown": float, "began_ns": list[int]},
    "graph": {"nodes": int, "elements": int},
    "work": dict.fromkeys(TYPE_COUNTS, int),
    "unused": {"name": str} | dict.fromkeys(UNUSED_COUNTS, int),
    "tables": {"looks": int},
    "operations": dict.fromkeys(_COUNTED, int),
    "dispatched": {"delay_ns": int},
    "retrace": {"framework": str, "more": int},
    "cost": {"at_ns": int, "event_ns": float, "events": int, "spent_ns": int, "records": int, "sampler_cpu_ns": int, "once_cpu_ns": int},
    "health": {"name": str, "severity": str, "count": int, "remedy": str},
    "run": {"name": str, "command": list[str], "started": str, "started_ns": int, "warmup": int}
    | {"started_in": str, "recorded_from_ns": int, "thread": int}
    | {"host": str, "launcher_rank": int, "launchers": int, "levers": list[str]}
    | {"stop": bool, "steps": int, "seconds": float, "capture": list[int]},
    "interrupted": {"by": str},
    "absent": {"monitor": str, "reason": str},
    "pipeline": {"iterator": int},
    "lever": {"name": str, "state": str, "reason": str, "updates": int} | {"arm": int, "effect": int, "block": int},
    "block": {"block": int, "arm": int, "steps": int, "cpu_ns": int},
    "gpu": {"name": str, "uuid": str} | dict.fromkeys(_GPU_NUMBERS, int),
    "exit": {
        "ended_ns": int,
        "code": int,
        "by": str,
        "records": int,
        "processes": int,
        "signals": list[str],
        "received": list[str],
        "told": list[str],
    },
    "end": {"ended_ns": int, "reason": str, "raised": str},
}
# What types of single values do not tell.
_NESTED: dict[str, Callable[[NoteLine], bool]] = {
    "thread": lambda note: bool(0 <= note["id"] < 2**32),
    "cost": _cost_fits,
    "operations": _operations_fit,
    "dispatched": _dispatched_fit,
    "iterator": _iterator_fits,
    "calls": _calls_fit,
    "builtins": _builtins_fit,
    "lines": _lines_fit,
    "gap_lines": _gap_lines_fit,
    "pipeline": pipeline_fits,
    "pipeline_nodes": nodes_fit,
    "padded": padded_fits,
    "shapes": shapes_fit,
    "stored_reads": stored_reads_fit,
    "retrace": _retrace_fits,
    "work": graph_work_fits,
    "products": graph_products_fit,
    "unused": unused_fits,
    "loops": _loops_fit,
    "loops_around": _loops_fit,
    "tables": _tables_fit,
    "training_path": _path_fits,
    "forward_path": _path_fits,
}
