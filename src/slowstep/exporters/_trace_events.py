"""Chrome's trace event format (JSON object form, complete events), which Perfetto opens: microseconds, a row per process and thread."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import polars as pl

from slowstep.errors import UnwritableOutput

# Rows of our own, above all others: no system gives a process such a number.
OWN_PID = 2_000_000_000
# What such a file begins with, so that it is distinguished from a profiler's trace.
MARK = b'{"slowstep"'
# Lines that are written at once.
_SLICE = 200_000


def write_events(target: Path, names: Iterable[dict[str, Any]], events: Iterable[pl.DataFrame]) -> None:
    """Write rows' names and events, gzipped where the target's name ends in `.gz`.

    Events have `start_ns`, `end_ns`, `name`, `cat`, `pid` and `tid`. Raises UnwritableOutput where the target exists or cannot be written.
    """
    try:
        with target.open("xb") as raw, _packed(raw) if target.name.endswith(".gz") else nullcontext(raw) as file:
            file.write(MARK + b': "what was found stands beside the events", "displayTimeUnit": "ms", "traceEvents": [\n')
            file.write(",\n".join(json.dumps(row) for row in names).encode())
            for rows in events:
                for piece in _lines(rows):
                    file.write(b",\n" + piece)
            file.write(b"\n]}\n")
    except FileExistsError:
        raise UnwritableOutput(f"{target} exists already, and is not written over. Give another place with --export-to.") from None
    except OSError as error:
        target.unlink(missing_ok=True)
        raise UnwritableOutput(f"{target} cannot be written: {error.strerror or error}.") from error
    except BaseException:
        # Half of a file would stand in the way of the next try.
        target.unlink(missing_ok=True)
        raise


def named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    """What a row is called: `what` is process_name or thread_name."""
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def first_of_all(pid: int) -> dict[str, Any]:
    """That a process stands above all others."""
    return {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": -1}}


def _packed(raw: IO[bytes]) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3)


def _lines(events: pl.DataFrame) -> Iterator[bytes]:
    """Complete events as lines of JSON, many at a time."""
    for piece in events.iter_slices(_SLICE):
        lines = piece.select(
            pl.struct(
                ph=pl.lit("X"),
                name="name",
                cat="cat",
                pid="pid",
                tid="tid",
                ts=pl.col("start_ns") / 1000,
                dur=(pl.col("end_ns") - pl.col("start_ns")) / 1000,
            ).struct.json_encode()
        ).to_series()
        if len(lines):
            yield ",\n".join(lines.to_list()).encode()
