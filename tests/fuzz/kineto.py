"""Kineto traces: what stands in their JSON changed field by field, and their text and gzip damaged."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from fuzz.case import Target
from fuzz.odd import cut, odd, places, put_odd, scribbled, shown
from kineto_files import CASES, event, kernel, launch

PHASES = ("X", "B", "E", "i", "I", "M", "s", "t", "f", "C", "b", "e", "n", "N", "O", "D", "P", "v", "R", "c", "", "x", "XX")
STEP_NAMES = ("ProfilerStep#", "ProfilerStep#-1", "ProfilerStep#99999999999999999999", "ProfilerStep#1", "Optimizer.step#SGD.step", "")
# A part of a trace is diagnosed in a third of a second, and holds all that is in the whole.
MOST_EVENTS = 500


@dataclass
class Document:
    """A trace: what stands around its events, the events (texts stand in the file as they are), and what is done to the file's bytes."""

    around: dict[str, Any]
    events: list[Any]
    indent: int | None = None
    late: list[Callable[[bytes], bytes]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """The events that are objects still."""
        return [event for event in self.events if isinstance(event, dict)]

    def to_bytes(self) -> bytes:
        """The file."""
        text = b"[" + b",\n".join(_dumped(event, self.indent) for event in self.events) + b"]"
        around = {name: value for name, value in self.around.items() if name != "traceEvents"}
        whole = _dumped(around, self.indent).rstrip()[:-1] + (b", " if around else b"") + b'"traceEvents": '
        raw = whole + (_dumped(self.around["traceEvents"], None) if "traceEvents" in self.around else text) + b"}"
        for change in self.late:
            raw = change(raw)
        return raw


def _dumped(value: Any, indent: int | None) -> bytes:
    # A lone surrogate is no text in UTF-8: it stands in the file as three bytes that no decoder takes.
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value, indent=indent).encode()


@cache
def _shortened(path: Path) -> bytes:
    """A real trace, of which the metadata and a stretch of time from its first step on are kept."""
    read = json.loads(gzip.decompress(path.read_bytes()))
    whole = read if isinstance(read, dict) else {"traceEvents": read}
    events = whole.pop("traceEvents")
    first = min((event["ts"] for event in events if "ProfilerStep" in str(event.get("name"))), default=0)
    meta = [event for event in events if event.get("ph") == "M"][:60]
    marks = [event for event in events if "ProfilerStep" in str(event.get("name"))]
    timed = [event for event in events if event.get("ph") != "M" and event not in marks and float(event.get("ts", 0)) >= float(first)]
    timed.sort(key=lambda event: float(event["ts"]))
    return json.dumps([whole, meta + marks + timed[:MOST_EVENTS]]).encode()


@cache
def _made() -> bytes:
    """A training of six steps with everything in it that slowstep looks at."""
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 0, "args": {"name": "python"}}]
    for step in range(6):
        at, number = step * 10_000, step * 100
        said = {"Input Dims": [[1024], [], [2, 3]], "Input type": ["float", "Scalar", "long int"], "Collective name": "allreduce"}
        said |= {"In msg nelems": 1024, "dtype": "Float", "Group size": 2, "External id": number}
        events += [
            event(f"ProfilerStep#{step}", at, 9_900, "user_annotation"),
            event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 10, 3_000, "user_annotation"),
            event(
                "aten::linear",
                at + 3_200,
                400,
                args={"External id": number + 1, "Input Dims": [[8, 16], [16, 16]], "Sequence number": step},
            ),
            event("train.py(12): forward", at + 3_100, 900, "python_function", args={"Python id": number, "Python parent id": None}),
            launch(at + 3_300, number + 1),
            kernel(at + 3_400, 1_500, number + 1),
            event("c10d::allreduce_", at + 5_000, 300, args=said),
            event("record_param_comms", at + 5_050, 200, args=said),
            launch(at + 5_060, number + 2, args={"External id": number}),
            kernel(at + 5_100, 900, number + 2, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", args=said | {"stream": 20}),
            event("cudaMemcpyAsync", at + 6_400, 20, "cuda_runtime", args={"correlation": number + 3}),
            kernel(at + 6_410, 600, number + 3, name="Memcpy HtoD", cat="gpu_memcpy", args={"bytes": 4096, "memory bandwidth (GB/s)": 3.0}),
            event("cudaStreamSynchronize", at + 7_000, 700, "cuda_runtime", args={"correlation": number + 4}),
            event("Optimizer.step#SGD.step", at + 8_000, 900, "user_annotation"),
            event("[memory]", at + 8_500, None, "cpu_instant_event", ph="i", args={"Bytes": 512, "Total Allocated": 4096, "Device Id": 0}),
            event("batch", at + 9_000, 500, "gpu_user_annotation", pid=0, tid=7),
        ]
    around = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100", "computeMajor": 8, "numSms": 108}]}
    around |= {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}, "baseTimeNanoseconds": 1_700_000_000_000_000_000}
    return json.dumps([around, events]).encode()


def _opened(load: Callable[[], bytes]) -> Document:
    around, events = json.loads(load())
    return Document(around, events)


def _any(document: Document, rng: random.Random) -> dict[str, Any] | None:
    """An event: of each kind as likely as of another, however many there are."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in document.rows():
        kinds.setdefault(f"{row.get('ph')} {row.get('cat')}", []).append(row)
    return rng.choice(kinds[rng.choice(sorted(kinds))]) if kinds else None


def _field(document: Document, rng: random.Random) -> tuple[dict[str, Any], str] | None:
    """A field of an event, or of its arguments."""
    row = _any(document, rng)
    holder = row and (row["args"] if isinstance(row.get("args"), dict) and row["args"] and rng.random() < 0.5 else row)
    return (holder, rng.choice(sorted(holder))) if holder else None


def _value(document: Document, rng: random.Random) -> str | None:
    found = _field(document, rng)
    return found and put_odd(*found, rng)


def _inner(document: Document, rng: random.Random) -> str | None:
    row = _any(document, rng)
    inside = [place for place in places(row.get("args")) if place[0] is not row["args"]] if row else []
    return put_odd(*rng.choice(inside), rng) if inside else None


def _everywhere(document: Document, rng: random.Random) -> str | None:
    found = _field(document, rng)
    if found is None:
        return None
    value, name = odd(rng, found[0][found[1]]), found[1]
    for row in document.rows():
        for holder in (row, row.get("args")):
            if isinstance(holder, dict) and name in holder:
                holder[name] = value
    return f"{name!r} of all events -> {shown(value)}"


def _text_number(document: Document, rng: random.Random) -> str | None:
    name = rng.choice(("ts", "dur", "pid", "tid", "correlation", "External id", "stream", "device"))
    for row in document.rows():
        for holder in (row, row.get("args")):
            if isinstance(holder, dict) and isinstance(holder.get(name), (int, float)):
                holder[name] = str(holder[name])
    return f"{name!r} of all events as text"


def _missing(document: Document, rng: random.Random) -> str | None:
    found = _field(document, rng)
    if found is None:
        return None
    holder, name = found
    others = [row if holder is not row.get("args") else row["args"] for row in document.rows()] if rng.random() < 0.3 else [holder]
    for each in others:
        each.pop(name, None)
    return f"{name!r} is missing in {len(others)} events"


def _twice(document: Document, rng: random.Random) -> str | None:
    row = _any(document, rng)
    if row is None:
        return None
    name, value = rng.choice(sorted(row)), odd(rng)
    text = json.dumps(row)
    first = f"{{{json.dumps(name)}: {json.dumps(value)}, {text[1:]}"
    document.events[document.events.index(row)] = first if rng.random() < 0.5 else f"{text[:-1]}, {json.dumps(name)}: {json.dumps(value)}}}"
    return f"{name!r} stands twice in an event, once as {shown(value)}"


def _phase(document: Document, rng: random.Random) -> str | None:
    rows, phase, share = document.rows(), rng.choice(PHASES), rng.choice((0.01, 0.5, 1.0))
    for row in rows:
        if rng.random() < share:
            row["ph"] = phase
    return f"phase {phase!r} of {share:.0%} of the events"


def _times(document: Document, rng: random.Random) -> str | None:
    rows = [row for row in document.rows() if isinstance(row.get("ts"), (int, float))]
    if not rows:
        return None
    how, share = rng.choice(("negative", "zero", "same", "far", "first", "huge", "long", "backwards")), rng.choice((0.02, 0.5, 1.0))
    first = rows[0]["ts"]
    for row in rows:
        if rng.random() >= share:
            continue
        length = row["dur"] if isinstance(row.get("dur"), (int, float)) else 0
        row["dur"] = {"negative": -length, "zero": 0, "huge": 1e18, "long": length * 1e6}.get(how, length)
        row["ts"] = {"same": first, "far": row["ts"] + 1e12, "first": 0, "backwards": 2 * first - row["ts"]}.get(how, row["ts"])
    return f"times of {share:.0%} of the events: {how}"


def _process(document: Document, rng: random.Random) -> str | None:
    name = rng.choice(("pid", "tid"))
    share, value = rng.choice((0.02, 0.5, 1.0)), rng.choice((odd(rng), 0, 100, 7, "stream 7", "python", 99999))
    for row in document.rows():
        if rng.random() < share:
            row[name] = value
    return f"{name} of {share:.0%} of the events -> {shown(value)}"


def _category(document: Document, rng: random.Random) -> str | None:
    known = sorted({str(row.get("cat")) for row in document.rows()})
    if not known:
        return None
    before, after = rng.choice(known), rng.choice([*known, "Kernel", "gpu_memset", "python_function", "cuda_sync", "overhead"])
    for row in document.rows():
        if str(row.get("cat")) == before:
            row["cat"] = after
    return f"category {before} -> {after}"


def _removed(document: Document, rng: random.Random) -> str | None:
    category, kept = rng.choice([str(row.get("cat")) for row in document.rows()] or [""]), rng.choice((0.0, 0.1, 0.5, 0.9))
    of_all = rng.random() < 0.3
    document.events = [
        event
        for event in document.events
        if rng.random() < kept or not (of_all or (isinstance(event, dict) and str(event.get("cat")) == category))
    ]
    return f"{1 - kept:.0%} of the events {'' if of_all else 'of ' + category} are gone"


def _few(document: Document, rng: random.Random) -> str | None:
    count = rng.choice((0, 1, 2, 3, 5, 20))
    document.events = rng.sample(document.events, min(count, len(document.events)))
    return f"only {count} events"


def _one_step(document: Document, rng: random.Random) -> str | None:
    steps = [row for row in document.rows() if "Step#" in str(row.get("name"))]
    kept = rng.randrange(3)
    document.events = [event for event in document.events if not any(event is row for row in steps[kept:])]
    return f"only {kept} steps"


def _repeated(document: Document, rng: random.Random) -> str | None:
    row = _any(document, rng)
    copies = rng.choice((1, 2, 50))
    document.events += [json.loads(json.dumps(row)) for _ in range(copies)] if row else []
    return f"an event stands {copies} times more"


def _shuffled(document: Document, rng: random.Random) -> str | None:
    rng.shuffle(document.events)
    return "in another order"


def _name(document: Document, rng: random.Random) -> str | None:
    row = _any(document, rng)
    names = [str(each.get("name")) for each in document.rows()]
    if row is None:
        return None
    before, row["name"] = row.get("name"), rng.choice([*STEP_NAMES, rng.choice(names)])
    return f"{shown(before)} is called {shown(row['name'])}"


def _number(document: Document, rng: random.Random) -> str | None:
    name = rng.choice(("correlation", "External id", "stream", "device", "Sequence number", "Python id", "Python parent id", "Device Id"))
    holders = [row["args"] for row in document.rows() if isinstance(row.get("args"), dict) and name in row["args"]]
    values = [holder[name] for holder in holders]
    if rng.random() < 0.5:
        values = [values[0]] * len(values) if values else []
    else:
        rng.shuffle(values)
    for holder, value in zip(holders, values, strict=True):
        holder[name] = value
    return f"{name!r} of events exchanged, or all alike"


def _around(document: Document, rng: random.Random) -> str | None:
    known = [(document.around, name) for name in sorted(document.around)] + list(places(document.around))
    return put_odd(*rng.choice(known), rng) if known else None


def _no_list(document: Document, rng: random.Random) -> str | None:
    document.around["traceEvents"] = odd(rng)
    return f"the events are {shown(document.around['traceEvents'])}"


def _no_event(document: Document, rng: random.Random) -> str | None:
    value = odd(rng)
    document.events.insert(rng.randrange(len(document.events) + 1), json.dumps(value))
    return f"an event is {shown(value)}"


def _late(change: Callable[[bytes, random.Random], bytes], words: str, document: Document, rng: random.Random) -> str | None:
    document.late.append(partial(_applied, change, rng.randrange(2**32)))
    return words


def _applied(change: Callable[[bytes, random.Random], bytes], seed: int, raw: bytes) -> bytes:
    return change(raw, random.Random(seed))


def _packed(raw: bytes, rng: random.Random) -> bytes:
    return gzip.compress(raw, 1, mtime=0)


def _indented(document: Document, rng: random.Random) -> str | None:
    document.indent = rng.choice((0, 2))
    return "pretty-printed"


def _write(document: Document, folder: Path) -> Path:
    path = folder / "trace.json"
    path.write_bytes(document.to_bytes())
    return path


def _base(path: Path) -> str:
    return path.parent.name if path.name == "trace.json.gz" else f"{path.parent.name}-{path.name.split('.')[0]}"


TARGET = Target(
    name="kineto",
    bases={"made": partial(_opened, _made)} | {_base(path): partial(_opened, partial(_shortened, path)) for path in CASES},
    changes={
        "value": _value,
        "inner": _inner,
        "everywhere": _everywhere,
        "text-number": _text_number,
        "missing": _missing,
        "twice": _twice,
        "phase": _phase,
        "times": _times,
        "process": _process,
        "category": _category,
        "removed": _removed,
        "few": _few,
        "one-step": _one_step,
        "repeated": _repeated,
        "shuffled": _shuffled,
        "name": _name,
        "number": _number,
        "around": _around,
        "no-list": _no_list,
        "no-event": _no_event,
        "indented": _indented,
        "cut": partial(_late, cut, "cut off"),
        "scribbled": partial(_late, scribbled, "bytes replaced"),
        "packed": partial(_late, _packed, "gzipped"),
    },
    write=_write,
)
