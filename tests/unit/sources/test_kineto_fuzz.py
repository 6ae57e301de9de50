"""Whatever bytes a file holds, the reader reads a part of it or says in a sentence that it cannot."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from how_many import how_many
from kineto_files import SMALL, event, kernel, launch, raw, read, same
from slowstep.errors import UnreadableInput
from slowstep.sources._kineto.text import scan
from slowstep.sources.kineto import SOURCE

BOUNDED = settings(max_examples=how_many(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
TEXTS = [gzip.decompress(path.read_bytes())[:8000] + b"]}" for path in SMALL]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=6
)
keys = st.sampled_from(
    ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id"],
)
ARGS = """External id|correlation|stream|device|grid|block|registers per thread|bytes|Input Dims|Input type|est. achieved occupancy %
Collective name|In msg nelems|dtype|Group size|graph node id|Call stack|Bytes"""
arg_keys = st.sampled_from(ARGS.replace("\n", "|").split("|"))
cats = st.sampled_from(
    ["cpu_op", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "user_annotation", "cpu_instant_event", "Kernel", "x"]
)


@st.composite
def odd_events(draw: Any) -> dict[str, Any]:
    """A good event, with some of its values replaced by anything."""
    base = draw(
        st.sampled_from([event("a", 10, 5), launch(11, 3), kernel(12, 4, 3), event("[memory]", 3, None, "cpu_instant_event", ph="i")])
    )
    made = dict(base) | {"cat": draw(cats)}
    made |= draw(st.dictionaries(keys, values, max_size=2))
    if isinstance(made.get("args"), dict):
        made["args"] = made["args"] | draw(st.dictionaries(arg_keys, values, max_size=3))
    return made


def faults(text: bytes) -> list[str]:
    """What is wrong with what is read of a file; a refusal in a sentence is an answer too. Anything else is raised."""
    with tempfile.TemporaryDirectory() as folder:
        path = raw(Path(folder), text)
        SOURCE.sniff(text[:4096], path)
        try:
            timeline = read(path)
        except UnreadableInput as error:
            return [] if str(path) in str(error) else [f"the refusal does not name the file: {error}"]
    found = [f"{row.name} counts {row.count}" for row in timeline.health if row.count <= 0]
    for name in ("host_events", "device_events", "marked_steps"):
        table = timeline.table(name)
        found += [f"{name} has a row that ends before it starts"] * int((table["end_ns"] < table["start_ns"]).sum())
    return found


@BOUNDED
@given(st.lists(odd_events(), max_size=6), st.sampled_from([None, 2]))
@pytest.mark.slow
def test_events_with_any_values(events: list[dict[str, Any]], indent: int | None) -> None:
    assert not faults(json.dumps({"traceEvents": [event("good", 1, 1), *events]}, indent=indent).encode())


@BOUNDED
@given(st.sampled_from(TEXTS), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3), st.integers(0, 40)), min_size=1, max_size=4))
def test_real_files_with_bytes_replaced(text: bytes, changes: list[tuple[float, bytes, int]]) -> None:
    for where, put, gone in changes:
        at = int(where * len(text))
        text = text[:at] + put + text[at + gone :]
    assert not faults(text)


@BOUNDED
@given(st.binary(max_size=300) | st.text(alphabet='{}[]",:\\ \nphX1te', max_size=300).map(str.encode))
def test_any_bytes(text: bytes) -> None:
    assert not faults(text)
    assert not faults(b'{"traceEvents": [' + text)
    assert not faults(gzip.compress(text)[: max(4, len(text))])


@pytest.mark.slow
@BOUNDED
@given(st.lists(st.dictionaries(st.text(max_size=5), values, max_size=4), max_size=5), st.sampled_from([None, 1]))
def test_scan_finds_the_same_objects_as_json(objects: list[Any], indent: int | None) -> None:
    text = json.dumps(objects, indent=indent).encode()[1:]
    found = scan(text)
    assert [json.loads(text[start:end]) for start, end in found.spans] == json.loads(json.dumps(objects)) or "NaN" in text.decode()
    assert found.list_end == len(text) - 1
    assert found.rest is None


@BOUNDED
@given(st.permutations(range(6)))
def test_order_in_the_file_does_not_matter(order: list[int]) -> None:
    events = [
        event("a", 10, 9),
        event("b", 12, 3),
        launch(13, 3),
        kernel(15, 4, 3),
        kernel(30, 4, 4),
        event("ProfilerStep#1", 9, 50, "user_annotation"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        paths = [raw(Path(folder), json.dumps([events[i] for i in each]).encode(), f"{n}.json") for n, each in enumerate((range(6), order))]
        assert same(read(paths[0]), read(paths[1]))


if __name__ == "__main__":
    pytest.main([__file__])
