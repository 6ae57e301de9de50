"""Facts of the input: what is read from recordings, and what stays unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from made_recordings import DATA, Training, make_recording
from slowstep.analyses.input import input_facts
from slowstep.analyses.input.input_facts import InputFacts
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import SOURCE
from slowstep.timeline.timeline import Timeline

OPEN = {
    "function": "built-in method io.open",
    "file": None,
    "line": None,
    "calls": 40,
    "total_ns": 20,
    "callers": [[DATA, "load", 60, 40, 20]],
}
LOAD = {"function": "load", "file": DATA, "line": 60, "calls": 10, "total_ns": 50, "callers": []}
ITEM = {"function": "__getitem__", "file": DATA, "line": 20, "calls": 10, "total_ns": 90, "callers": []}
PILLOW = {"function": "open", "file": "/x/site-packages/PIL/Image.py", "line": 1, "calls": 10, "total_ns": 30, "callers": []}
TIMED = {"kind": "builtins", "of": "fetch", "stretches": 1, "samples": 10, "wall_ns": 100, "rows": [OPEN, LOAD, ITEM, PILLOW]}


def timeline_of(folder: Path, **changes: Any) -> Timeline:
    return SOURCE.read(make_recording(folder / "recording", Training(**{"steps": 120, "workers": 2, **changes})))


def facts_of(folder: Path, **changes: Any) -> InputFacts:
    return measure_recording(timeline_of(folder, **changes)).input.facts


def test_what_an_older_recording_does_not_hold_is_unknown(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)

    assert facts.functions == ()
    assert (facts.dataset_length, facts.memory_available_bytes, facts.forms, facts.received) == (None, None, None, None)


def test_functions_are_given_per_sample_and_as_shares_of_the_making(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, producer_lines=(TIMED,))

    opened = facts.named("io.open")[0]
    assert (opened.calls_per_sample, opened.share, opened.caller, opened.is_users) == (4.0, 0.2, "load", False)
    assert [f.name for f in facts.functions] == ["__getitem__", "load", "open", "built-in method io.open"]


def test_of_batches_with_an_unknown_number_of_samples_the_shares_are_known(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, producer_lines=({**TIMED, "samples": 0},))

    opened = facts.named("io.open")[0]
    assert (opened.calls_per_sample, opened.share) == (None, 0.2)


@pytest.mark.parametrize(("share", "name"), [(0.2, "load"), (0.6, "__getitem__"), (0.95, None)])
def test_the_nearest_function_of_the_users_around_a_cost_is_named(tmp_path: Path, share: float, name: str | None) -> None:
    facts = facts_of(tmp_path, producer_lines=(TIMED,))

    around = facts.around(share)

    assert (None if around is None else around.name) == name


def test_malformed_notes_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = ({**TIMED, "rows": [{"function": 3}]}, {"kind": "batch", "tensors": 1, "bytes": 1, "spare_bytes": 0, "types": [1]})

    timeline = timeline_of(tmp_path, producer_lines=bad)

    assert timeline.table("builtins").is_empty()
    assert timeline.table("batch_forms").is_empty()
    assert [row.count for row in timeline.health if row.name == "malformed-notes"] == [2]


def test_passes_over_the_data_are_told_apart(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, epoch_steps=40, blocked_ms=10, storage=True, storage_epochs=1, reads=(1600, 4))

    assert [p.samples for p in facts.passes] == [640, 640, 640]
    assert [p.storage_bytes_per_sample for p in facts.passes] == [100, 0, 0]
    assert facts.passes[0].making_ns_per_sample > facts.passes[1].making_ns_per_sample
    assert facts.read_calls_per_sample == pytest.approx(0.25)


def test_helping_threads_are_counted_while_their_producer_does_not_queue(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, getitem_ms=9.5, collate_ms=0.5, other_ms=10, queue_ms=20)

    assert facts.helpers == pytest.approx(0.5)
    assert facts.helpers_share == pytest.approx(0.25)
    assert facts.queueing_share == pytest.approx(0.5)


@pytest.mark.parametrize(("seconds", "expected"), [(3, None), (20, 4e6)])
def test_the_busiest_network_interface_gives_the_rate_received(tmp_path: Path, seconds: int, expected: float | None) -> None:
    timeline = timeline_of(tmp_path)
    steps = measure_recording(timeline).steps
    time_ns = int(steps.edges_ns[0]) + np.arange(0, seconds * 10**9, 2 * 10**8)
    time_ns = np.minimum(time_ns, int(steps.edges_ns[0]) + seconds * 10**9)
    tables = [
        pl.DataFrame(
            {
                "time_ns": time_ns,
                "loopback": [loopback] * len(time_ns),
                "received_bytes": ((time_ns - time_ns[0]) / 1e9 * rate).astype(np.int64),
            }
        )
        for loopback, rate in ((True, 4e6), (False, 1e3))
    ]
    wide = pl.concat(tables)
    long = type(steps)(**{name: getattr(steps, name) for name in steps.__dataclass_fields__} | {"edges_ns": time_ns[[0, -1]]})

    found = input_facts._received(Timeline(source="", tables={"network": wide}, processes=(), run=timeline.run, health=()), long)

    assert (None if found is None else found.bytes_per_s) == (None if expected is None else pytest.approx(expected))
