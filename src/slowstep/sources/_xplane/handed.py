"""What threads of an XPlane file do for another one, which handed them its work: TensorFlow's executor, and XLA's programs on a processor.

TensorFlow: a call of a graph (`FunctionRun`) has a number, which every stretch of the executor that works for it repeats
(`ExecutorState::Process`: the facts `_pt` and `_p` of a producer, `_ct` and `_c` of a consumer). Functions of a tf.data pipeline are run so
too, and their numbers are told by the pipeline's own threads, or by nobody.

XLA: operations name their program (`hlo_module`), and calls of JAX the function (`PjitFunction(step)` runs the program `jit_step`); which
call a run belongs to is not told. A run has a number (`run_id`), which the wait for its end has too: operations may go on after the events
that are named for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from slowstep.sources._xplane.plane import Piece

GRAPH_CALL, EXECUTOR = "FunctionRun", "ExecutorState::Process"
JAX_CALL: Final = re.compile(r"^PjitFunction\((.*)\)$")
# Calls that return when their work is done: of an operation, and of a program that XLA compiled for TensorFlow.
_OPERATION: Final = re.compile(r"^EagerLocalExecute: (?!IteratorGetNext)[A-Z]\w*$|^CpuExecutable::ExecuteAsyncOnStream$")
# A call of a function of TensorFlow's, whose names begin so: it waits for its executor.
_FUNCTION: Final = re.compile(r"^EagerLocalExecute: __")
# The next element, asked for within a graph.
_INPUT: Final = re.compile(r"^IteratorGetNext")
_JAX_LAUNCH: Final = re.compile(r"LoadedExecutable::Execute")

COLUMNS: Final = {
    "role": pl.String,
    "thread": pl.Int32,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "key": pl.String,
    "run": pl.Int64,
}
# What a row of `COLUMNS` is: a call that hands over a graph, or a program; the executor at work for a graph, or an operation of a program;
# an operation that the calling thread makes itself, or a call that waits; input that is taken in between.
GRAPH, PROGRAM, EXECUTOR_WORK, OPERATION, OWN, WAITS, INPUT = "graph", "program", "executor", "operation", "own", "waits", "input"


def handed_rows(piece: Piece, thread: int) -> pl.DataFrame:
    """The events of a piece that tell who works for whom (`COLUMNS`)."""
    rows = [*_of_graphs(piece), *_by_name(piece)]
    at = [position for _, position, _ in rows]
    columns = {
        "role": [role for role, _, _ in rows],
        "thread": [thread] * len(rows),
        "start_ns": piece.start_ns[at],
        "end_ns": piece.end_ns[at],
        "key": [key for *_, key in rows],
    }
    found = pl.DataFrame(columns, schema={name: kind for name, kind in COLUMNS.items() if name != "run"})
    return pl.concat([found.with_columns(run=pl.lit(None, dtype=pl.Int64)), _of_programs(piece, thread)]).select(*COLUMNS)


def _of_graphs(piece: Piece) -> Iterator[tuple[str, int, str | None]]:
    facts = piece.facts("_pt", "_p", "_ct", "_c")
    for name, kind, number, role in ((GRAPH_CALL, "_pt", "_p", GRAPH), (EXECUTOR, "_ct", "_c", EXECUTOR_WORK)):
        for position, _ in piece.named(name.__eq__):
            tells = position in facts[kind] and position in facts[number]
            yield role, position, f"{facts[kind][position]}:{facts[number][position]}" if tells else None


def _of_programs(piece: Piece, thread: int) -> pl.DataFrame:
    facts = piece.facts("hlo_module", "run_id")
    runs = {position: run for position, run in facts["run_id"].items() if isinstance(run, int) and 0 <= run < 2**63}
    at = sorted({*facts["hlo_module"], *runs})
    programs = (facts["hlo_module"].get(position) for position in at)
    columns = {
        "role": [OPERATION] * len(at),
        "thread": [thread] * len(at),
        "start_ns": piece.start_ns[at],
        "end_ns": piece.end_ns[at],
        "key": [_letters(program) if isinstance(program, str) else None for program in programs],
        "run": [runs.get(position) for position in at],
    }
    return pl.DataFrame(columns, schema=COLUMNS)


def _by_name(piece: Piece) -> Iterator[tuple[str, int, str | None]]:
    for position, name in piece.named(lambda text: JAX_CALL.match(text) or _JAX_LAUNCH.search(text)):
        call = JAX_CALL.match(name)
        yield PROGRAM, position, None if call is None else _letters(f"jit_{call[1]}")
    for role, pattern in ((INPUT, _INPUT), (WAITS, _FUNCTION), (OWN, _OPERATION)):
        yield from ((role, position, None) for position, _ in piece.named(pattern.match))


def _letters(program: str) -> str:
    """A program's name as far as both sides write it alike: what is no letter or digit is replaced, or left out."""
    return re.sub(r"[\W_]", "", program)
