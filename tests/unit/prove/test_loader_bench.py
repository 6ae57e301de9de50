"""What is made of the readings of a loader: its speed, its curve, its parts, and what binds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slowstep.prove.bench.loader_bound import UNEVEN, Bound, is_crowded, judge
from slowstep.prove.bench.loader_speed import are_alike, bend, change_of_cache, curve, from_storage, make_point, own_point, page_cache
from slowstep.prove.bench.loader_stages import carried, read_builtin_calls, stages
from slowstep.reason_words import sentence

MS = 1_000_000
BESIDE_COMPUTE = ", with nothing else to do: in the training they work while the model computes"


def said_by(bound: Bound) -> str:
    return sentence(bound.reason)


def a_slice(workers: int = 1, **changes: Any) -> dict[str, Any]:
    """A tenth of a second in which each producer computed all the time."""
    made = 100 * MS * max(workers, 1)
    usual = {"period_ns": 100 * MS, "batches": 10, "wall_ns": made, "cpu_ns": made, "delay_ns": 0, "others_ns": 0, "collate_ns": 0}
    usual |= {"collate_cpu_ns": 0, "process_ns": made, "trainer_cpu_ns": 5 * MS * bool(workers), "read_bytes": 1000, "storage_bytes": 0}
    return {**usual, "received_bytes": 0, "connections": 0, **changes}


def a_drain(workers: int = 1, *, batch_ms: float = 10.0, batches: int = 40, **changes: Any) -> dict[str, Any]:
    """A reading of batches of 8 samples and 800 bytes that take equally long; `slices` are changes to all of its slices."""
    rows = [[int(batch_ms * MS), 1, 8, 800] for _ in range(batches)]
    in_slices = changes.pop("slices", {})
    slices = [a_slice(workers, **in_slices) for _ in range(8)]
    usual = {"workers": workers, "rows": rows, "skipped": 2, "seen": 8 * batches, "ready": 0, "ready_ns": 0, "starts_ns": [50 * MS]}
    usual |= {"edges": [], "epoch_batches": None}
    return {**usual, "slices": slices, "reason": None, **changes}


def an_edge(start_ms: float, *, fill_ms: float = 0, end_ms: float = -1, filled: int = 1, batches: int = -1) -> dict[str, int]:
    """The begin of an epoch of batches of 8 samples and 800 bytes, and its end where its batches are given."""
    end_ns = int(end_ms * MS) if end_ms >= 0 else -1
    size = {"filled": filled, "samples": 8 * filled, "seen": 8 * filled, "size_bytes": 800 * filled}
    return {"start_ns": int(start_ms * MS), "fill_ns": int(fill_ms * MS), "end_ns": end_ns, "batches": batches, **size}


def the_parts(**changes: Any) -> dict[str, Any]:
    """Batches of 10 samples: of 100 ms the data set's own 30, two steps 40 and 20, collate 10."""
    row = [10, 100 * MS, 100 * MS, 0, 0, 0, 0, 10 * MS, 40 * MS, 20 * MS]
    calls = {"base": {"network": 0, "file": 20 * MS, "sleep": 0, "decode": 80 * MS, "names": [["decode", "Decoder.decode", 80 * MS]]}}
    usual = {"steps": ["resize", "flip"], "rows": [row] * 6, "left_out": [[10, 90 * MS, 70 * MS, 30 * MS]] * 3, "left_out_reason": None}
    return {**usual, "calls": calls, "calls_samples": 100, "calls_reason": None, "reason": None, **changes}


def test_a_reading_of_equal_batches_has_an_exact_speed():
    point = make_point(1, [a_drain(batch_ms=10)])

    assert point.samples_per_s is not None
    assert point.bytes_per_s is not None
    assert (point.samples_per_s.value, point.samples_per_s.low, point.samples_per_s.high) == (800, 800, 800)
    assert point.bytes_per_s.value == 80_000
    assert (point.batches, point.samples, point.start_s, point.reason) == (40, 320, 0.05, None)


def test_too_few_batches_have_a_reason_and_no_speed():
    point = make_point(4, [a_drain(4, batches=3)])

    assert point.samples_per_s is None
    assert point.reason == "only 3 batches came in its time"
    assert make_point(4, [a_drain(4, batches=0, reason="ValueError: broken")]).reason == "ValueError: broken"


def test_whole_epochs_hold_the_start_and_the_end_of_workers():
    # 50 ms to a first batch, three more of 10 ms each, 20 ms of ending: 32 samples in 100 ms.
    edges = [an_edge(50, end_ms=20, batches=4)] * 10

    point = make_point(2, [a_drain(2, batches=30, edges=edges, epoch_batches=4)])

    assert point.samples_per_s.value == pytest.approx(320)
    assert point.batches_per_s.value == pytest.approx(40)
    assert point.bytes_per_s.value == pytest.approx(32_000)
    assert (point.epoch_batches, point.edge_s, point.batches, point.samples) == (4, pytest.approx(0.07), 40, 320)
    assert point.edge_ms == pytest.approx(70 / 32)


def test_of_long_epochs_one_start_is_shared_by_all_their_batches():
    # The first two batches in 100 ms, and 98 of 10 ms.
    point = make_point(1, [a_drain(1, edges=[an_edge(60, fill_ms=40, filled=2)], epoch_batches=100)])

    assert point.samples_per_s.value == pytest.approx(800 / 1.08)
    assert point.edge_ms == pytest.approx(60 / 800)
    assert make_point(1, [a_drain(1, edges=[an_edge(60)], epoch_batches=None)]).samples_per_s.value == pytest.approx(800)


def test_one_start_that_took_long_does_not_make_an_epoch_endless():
    edges = [an_edge(10, end_ms=0, batches=100)] * 7 + [an_edge(300, end_ms=0, batches=100)]

    speed = make_point(0, [a_drain(0, batches=400, edges=edges, epoch_batches=100)]).samples_per_s
    assert speed.value == pytest.approx(800 / (0.99 + 0.37 / 8))
    assert speed.low > 800 / (0.99 + 0.37)


def test_epochs_of_one_batch_have_nothing_but_edges():
    drain = a_drain(1, batches=0, edges=[an_edge(60, end_ms=20, batches=1)] * 5, epoch_batches=1)

    assert make_point(1, [drain]).samples_per_s.value == pytest.approx(100)


def test_an_epoch_that_was_too_short_for_its_skipped_batches_tells_its_length_only():
    edges = [an_edge(10, fill_ms=5, filled=3, end_ms=5, batches=3), *[an_edge(50, end_ms=20, batches=3)] * 8]

    assert make_point(1, [a_drain(1, batches=16, edges=edges)]).samples_per_s.value == pytest.approx(24 / 0.09)


def test_two_batches_give_a_speed_with_a_wide_interval():
    rows = [[900 * MS, 1, 8, 800], [1100 * MS, 1, 8, 800]]

    point = make_point(1, [a_drain(rows=rows)])

    assert point.samples_per_s.value == pytest.approx(8)
    assert point.samples_per_s.low < 1
    assert point.samples_per_s.high > 15
    assert (point.few, point.reason) == (True, "from 2 batches")
    assert make_point(1, [a_drain(batches=1)]).reason == "only 1 batch came in its time"


def test_what_there_was_no_time_for_leaves_the_first_reading_in_the_curve():
    none = {"batches": 0, "starts_ns": [], "slices": {}, "reason": "left out: no time"}

    points = curve([a_drain(1, batch_ms=1000), a_drain(0, **none), a_drain(1, **none), a_drain(2, **none)])

    assert [(point.workers, point.reason) for point in points] == [(0, "left out: no time"), (1, None), (2, "left out: no time")]
    assert own_point([a_drain(1), a_drain(1, **none)]).reason is None


def test_samples_that_are_not_known_leave_batches():
    drain = a_drain()
    drain["rows"] = [[10 * MS, 1, -1, -1]] * 40

    point = make_point(1, [drain])
    assert point.samples_per_s is None
    assert point.bytes_per_s is None
    assert point.batches_per_s is not None
    assert point.batches_per_s.value == 100


@pytest.mark.parametrize(
    ("read", "storage", "state"),
    [
        (1000, 0, "warm"),
        (1000, 40, "warm"),
        (1000, 500, "mixed"),
        (1000, 990, "cold"),
        (0, 500, "cold"),
        (0, 0, "unknown"),
        (4, 0, "unknown"),
    ],
)
def test_the_page_cache_is_told_by_what_came_from_storage(read, storage, state):
    # In KB, of 10 batches.
    drain = a_drain(slices={"read_bytes": read * 1000, "storage_bytes": storage * 1000})

    assert page_cache(drain)[0] == state


def test_where_the_kernel_does_not_say_the_page_cache_is_unknown():
    assert page_cache(a_drain(slices={"read_bytes": None, "storage_bytes": None})) == ("unknown", None)


def test_the_loader_as_it_is_is_its_cold_pass_or_all_of_them():
    warm = [a_drain(batch_ms=10), a_drain(2, batch_ms=5), a_drain(batch_ms=30)]
    assert own_point(warm).samples_per_s.value == pytest.approx(400)

    cold = [a_drain(batch_ms=20, slices={"storage_bytes": 1000}), a_drain(batch_ms=10)]
    assert own_point(cold).samples_per_s.value == pytest.approx(400)


def read_from_storage(share: float, *, workers: int = 1, batch_ms: float = 10) -> dict[str, Any]:
    return a_drain(workers, batch_ms=batch_ms, slices={"storage_bytes": int(1000 * share)})


@pytest.mark.parametrize("shares", [(1.0, 1.0, 1.0), (0.03, 0, 0), (0, 0, 0), (1.0, 0.96, 0.99), (0.5, 0.46, 0.54)])
def test_readings_of_one_state_give_one_rate_for_the_loader_and_in_its_curve(shares: tuple[float, ...]) -> None:
    first, *later = [read_from_storage(share, batch_ms=ms) for share, ms in zip(shares, (30, 20, 10), strict=True)]
    drains = [first, a_drain(0), *later]

    assert own_point(drains).samples_per_s.value == pytest.approx(400)
    assert [point.samples_per_s.value for point in curve(drains)] == pytest.approx([800, 400])
    assert change_of_cache(drains) is None


@pytest.mark.parametrize(
    ("shares", "alone", "in_curve", "change"),
    [
        ((1.0, 0, 0), 8 / 0.03, 8 / 0.015, (1.0, 0.0)),
        ((0.5, 0.1, 0), 8 / 0.03, 8 / 0.015, (0.5, 0.0)),
        # It was cold twice: what is alike stands together.
        ((1.0, 1.0, 0), 8 / 0.025, 8 / 0.015, (1.0, 0.0)),
        # What came meanwhile drove its files out.
        ((0, 1.0, 1.0), 8 / 0.03, 8 / 0.015, (0.0, 1.0)),
    ],
)
def test_readings_of_two_states_are_told_apart(
    shares: tuple[float, ...], alone: float, in_curve: float, change: tuple[float, float]
) -> None:
    drains = [read_from_storage(share, batch_ms=ms) for share, ms in zip(shares, (30, 20, 10), strict=True)]

    assert own_point(drains).samples_per_s.value == pytest.approx(alone)
    assert [point.samples_per_s.value for point in curve(drains)] == pytest.approx([in_curve])
    assert change_of_cache(drains) == change


def test_readings_of_which_the_kernel_says_nothing_are_taken_for_alike() -> None:
    unknown = a_drain(slices={"read_bytes": None, "storage_bytes": None})

    assert are_alike(unknown, read_from_storage(1.0))
    assert change_of_cache([unknown, read_from_storage(1.0)]) is None
    assert from_storage(None, 5) is from_storage(0, 0) is None


def test_the_curve_bends_where_more_workers_add_next_to_nothing():
    first = a_drain(2, batch_ms=10)

    points = curve([first, a_drain(0, batch_ms=20), a_drain(1, batch_ms=19), a_drain(2, batch_ms=10), a_drain(4, batch_ms=9.8)])
    assert [point.workers for point in points] == [0, 1, 2, 4]
    assert bend(points) == 2
    assert bend(points[:1]) is None
    assert bend(curve([first, a_drain(0, batch_ms=5), a_drain(1, batch_ms=20)])) == 0


@pytest.mark.parametrize(("spread_ms", "found"), [(0, 4), (0.5, 4), (8, 2)])
def test_the_curve_rises_only_where_the_intervals_say_so(spread_ms: float, found: int) -> None:
    rows = [[int((8.7 + sign * spread_ms) * MS), 1, 8, 800] for sign in (-1, 1, 1, -1) for _ in range(4)]

    assert bend(curve([a_drain(2, batch_ms=10), a_drain(1, batch_ms=13), a_drain(4, rows=rows)])) == found


def test_the_parts_of_a_sample_add_up():
    rows = stages(the_parts(), None)

    assert [row.kind for row in rows] == ["read", "decode", "own", "transform", "transform", "collate"]
    assert [round(row.ms, 3) for row in rows] == [0.2, 0.8, 2.0, 4.0, 2.0, 1.0]
    assert sum(row.ms for row in rows) == pytest.approx(10)
    assert rows[1].note == "Decoder.decode"
    assert [row.left_out_ms for row in rows if row.kind == "transform"] == [4.0, 2.0]


def test_reading_inside_a_transform_is_reading():
    calls = {"0": {"network": 0, "file": 100 * MS, "sleep": 0, "decode": 200 * MS, "names": []}}

    rows = {row.name: row.ms for row in stages(the_parts(calls=calls), None)}
    assert (rows["read"], rows["decode"], rows["resize"]) == (1.0, 2.0, 1.0)


def test_standing_still_is_reading_though_no_call_shows_it():
    still = [10, 100 * MS, 60 * MS, 0, 0, 0, 0, 10 * MS, 30 * MS, 20 * MS]

    rows = {row.name: row.ms for row in stages(the_parts(rows=[still] * 6, calls={}), None)}
    assert rows["read"] == 4.0
    # All of its 40 ms were that.
    assert "the data set itself" not in rows


def test_a_step_or_a_collate_function_that_stands_still_is_no_reading():
    # Of 100 ms resize waits 40, collate 10: nothing of that is the data set's own.
    still = [10, 100 * MS, 50 * MS, 0, 0, 50 * MS, 0, 10 * MS, 40 * MS, 20 * MS]
    slept = {"collate": {"network": 0, "file": 0, "sleep": 100 * MS, "decode": 0, "names": [["sleep", "time.sleep", 100 * MS]]}}

    rows = stages(the_parts(rows=[still] * 6, calls=slept), None)
    assert [row.kind for row in rows] == ["own", "transform", "transform", "collate"]
    assert sum(row.ms for row in rows) == pytest.approx(10)


def test_threads_that_a_step_waits_for_do_not_hide_that_the_data_set_stands_still():
    # Resize waits 40 ms for threads that compute, the data set itself 20 ms for nobody.
    still = [10, 100 * MS, 40 * MS, 0, 40 * MS, 40 * MS, 40 * MS, 10 * MS, 40 * MS, 20 * MS]

    rows = {row.kind: row.ms for row in stages(the_parts(rows=[still] * 6, calls={}), None)}
    assert rows["read"] == pytest.approx(2)


def test_where_neither_is_seen_they_are_not_told_apart():
    rows = stages(the_parts(calls={}, calls_samples=0), None)

    assert rows[0].name == "the data set itself"
    assert rows[0].note == "read and decode not distinguished"
    assert read_builtin_calls(the_parts(calls_samples=0)) is None


def test_no_parts_have_no_rows():
    assert stages(None, None) == ()
    assert stages(the_parts(rows=[]), None) == ()


def test_transport_is_what_workers_use_beside_making_batches_and_the_trainer_for_receiving():
    point = make_point(1, [a_drain(slices={"cpu_ns": 70 * MS, "wall_ns": 70 * MS, "process_ns": 90 * MS, "trainer_cpu_ns": 20 * MS})])

    row = stages(the_parts(), point)[-1]
    # Per slice 10 batches of 8 samples: 20 ms of the worker and 20 ms of the trainer.
    assert row.kind == "transport"
    assert row.ms == pytest.approx(0.5)
    # Of 10.5 ms.
    assert carried(stages(the_parts(), point)) == pytest.approx(0.5 / 10.5)
    assert carried(stages(the_parts(), None)) is None


def test_what_workers_take_longer_for_the_same_work_is_no_transport():
    # Nearly all of the making is collate: alone 98 of 100 ms for 10 samples, on a busy machine a quarter more.
    row = [10, 100 * MS, 100 * MS, 0, 10 * MS, 0, 0, 98 * MS, 0, 0]
    busy = {"wall_ns": 1000 * MS, "cpu_ns": 1000 * MS, "collate_cpu_ns": 980 * MS, "process_ns": 1100 * MS, "trainer_cpu_ns": 8 * MS}
    point = make_point(1, [a_drain(slices=busy)])

    # Nor is what other threads of the workers compute. Left are 0.1 ms for receiving, and half a millisecond a batch that nobody can tell.
    assert 0.1 < stages(the_parts(rows=[row] * 6, calls={}), point)[-1].ms < 0.1 + 0.5 / 8 + 0.01


@pytest.mark.parametrize(("size_bytes", "ms"), [(50_000_000, 4.6), (1_000_000, 0.4125), (-1, 0.1)])
def test_collating_into_shared_memory_takes_no_more_than_the_bytes_of_a_batch_can(size_bytes: int, ms: float) -> None:
    # In place of 4 ms alone it takes 40 for a batch of 8 samples: as much as moving 50 MB may, and 1 MB may not.
    row = [10, 50 * MS, 50 * MS, 0, 0, 0, 0, 5 * MS, 0, 0]
    slices = {"wall_ns": 760 * MS, "cpu_ns": 760 * MS, "collate_cpu_ns": 400 * MS, "process_ns": 760 * MS, "trainer_cpu_ns": 8 * MS}
    rows = [[10 * MS, 1, 8, size_bytes] for _ in range(40)]

    assert stages(the_parts(rows=[row] * 6, calls={}), make_point(1, [a_drain(rows=rows, slices=slices)]))[-1].ms == pytest.approx(ms)


def test_computing_workers_are_cpu_bound():
    bound = judge(make_point(1, [a_drain()]), cores=2)

    assert bound.kind == "cpu"
    assert "the loader uses 1.1 of 2 cores: more workers could use the rest" in said_by(bound)
    assert {row.threshold for row in bound.rows if row.unit == "share"} >= {0.5}
    assert all(row.source for row in bound.rows if row.threshold is not None)


@pytest.mark.parametrize(
    ("cores", "process_ms", "said"),
    [
        (8, 60, "100 % computing, waits for a core (40 % of the time) left out, and"),
        (1, 95, "100 % computing (40 % waiting for a core)"),
        (8, 100, "100 % computing,"),
    ],
    ids=["others use the cores", "its own workers do", "none waits"],
)
def test_waiting_for_a_core_is_said_beside_computing(cores: int, process_ms: int, said: str) -> None:
    waits = {"cpu_ns": 60 * MS, "delay_ns": 40 * MS} if process_ms < 100 else {}

    text = said_by(judge(make_point(0, [a_drain(0, slices={**waits, "process_ns": process_ms * MS})]), cores=cores))

    assert text.startswith(f"making a batch is {said}")


def test_workers_on_all_cores_have_none_left():
    assert "more workers would find no free core" in said_by(judge(make_point(2, [a_drain(2)]), cores=2))


@pytest.mark.parametrize(
    ("batch_ms", "said"),
    [
        (8.0, ", but 4 workers were faster (see the curve)"),
        (10.0, ": more workers would find no free core, and were not surely faster (see the curve)"),
        (12.0, ": more workers would find no free core, and were slower (see the curve)"),
    ],
)
def test_busy_cores_are_not_all_where_the_curve_still_rises(batch_ms: float, said: str) -> None:
    points = curve([a_drain(2), a_drain(1, batch_ms=13), a_drain(4, batch_ms=batch_ms)])

    assert said_by(judge(make_point(2, [a_drain(2)]), cores=2, points=points)).endswith(f"2.0 of 2 cores{said}")


@pytest.mark.parametrize(
    ("own", "batch_ms", "said"),
    [
        (0, {0: 5, 1: 8, 2: 7}, f", but more workers were slower (see the curve){BESIDE_COMPUTE}"),
        (0, {0: 5, 1: 5, 2: 4.9}, f", but more workers were not surely faster (see the curve){BESIDE_COMPUTE}"),
        (0, {0: 5, 1: 6, 2: 4, 4: 4.1}, ", and 2 workers were faster (see the curve)"),
        (1, {0: 5, 1: 8, 2: 7}, ", and without workers it was faster (see the curve)"),
        (2, {0: 5, 1: 8, 2: 5, 4: 9}, ", but more workers were slower (see the curve)"),
        (2, {0: 9, 1: 5, 2: 8}, ", and 1 worker was faster (see the curve)"),
        # None of more workers was measured.
        (2, {0: 9, 1: 8, 2: 5}, ": more workers could use the rest"),
        (1, {}, ": more workers could use the rest"),
    ],
)
def test_what_the_curve_measured_goes_before_what_idle_cores_let_one_expect(own: int, batch_ms: dict[int, float], said: str) -> None:
    drains = [a_drain(workers, batch_ms=ms) for workers, ms in batch_ms.items()]
    points = curve([a_drain(own, batch_ms=batch_ms[own]), *drains]) if batch_ms else ()

    text = said_by(judge(make_point(own, [a_drain(own)]), cores=8, points=points))

    assert text.endswith(f" of 8 cores{said}")


@pytest.mark.parametrize(
    ("carrying", "without_ms", "kind"), [(0.67, 5, "transport"), (0.67, 10, "cpu"), (0.4, 5, "cpu"), (None, 5, "cpu"), (0.67, None, "cpu")]
)
def test_a_long_way_binds_a_loader_that_is_faster_without_it(carrying: float | None, without_ms: float | None, kind: str) -> None:
    without = [a_drain(0, batch_ms=without_ms)] if without_ms else []
    points = curve([a_drain(1), a_drain(1), *without, a_drain(2, batch_ms=9)])

    bound = judge(make_point(1, [a_drain(1)]), cores=2, points=points, carrying=carrying)

    assert bound.kind == kind
    if kind == "transport":
        assert "is 67 % of what a sample takes, and without workers the loader alone is 2.0x as fast" in said_by(bound)
        assert {row.name: row.value for row in bound.rows}["the way to the training, of a sample"] == 0.67


def test_a_queue_behind_others_is_no_work_of_the_loader():
    crowded = a_drain(slices={"cpu_ns": 10 * MS, "delay_ns": 60 * MS, "process_ns": 10 * MS})
    point = make_point(1, [crowded])

    assert is_crowded(point, 2)
    assert judge(point, cores=2).kind == "blocked"
    assert not is_crowded(make_point(2, [a_drain(2, slices={"delay_ns": 60 * MS})]), 2)


@pytest.mark.parametrize(("delay_ms", "crowded"), [(9, False), (10, True)])
def test_a_loader_is_crowded_from_where_its_queueing_is_said(delay_ms: int, crowded: bool):
    point = make_point(1, [a_drain(slices={"cpu_ns": 90 * MS, "delay_ns": delay_ms * MS, "process_ns": 90 * MS})])

    assert is_crowded(point, 2) is crowded
    assert ("left out" in said_by(judge(point, cores=2))) is crowded


STILL = {"cpu_ns": 10 * MS, "process_ns": 10 * MS}


@pytest.mark.parametrize(
    ("slices", "calls", "kind"),
    [
        ({}, None, "blocked"),
        ({"storage_bytes": 900}, None, "storage"),
        ({"storage_bytes": 20}, None, "blocked"),
        ({"connections": 2, "received_bytes": 5000}, None, "network"),
        ({}, "network", "network"),
        ({}, "sleep", "blocked"),
        ({"storage_bytes": 900}, "file", "storage"),
        ({"storage_bytes": 900}, "network", "network"),
    ],
)
def test_what_stands_still_is_told_by_calls_and_counters(slices, calls, kind):
    times = {"network": 0, "file": 0, "sleep": 0, "decode": 0} | ({calls: 500 * MS} if calls else {})
    parts = the_parts(calls={"base": {**times, "names": [[calls, "the.call", 500 * MS]] if calls else []}})

    bound = judge(make_point(1, [a_drain(slices=STILL | slices)]), cores=2, calls=read_builtin_calls(parts))
    assert bound.kind == kind
    assert "90 % waiting" in said_by(bound)
    assert calls in (None, "file") or "the.call" in said_by(bound)


@pytest.mark.parametrize(("made_ms", "kind"), [(40, "transport"), (60, "transport"), (91, "cpu")])
def test_batches_that_lie_ready_are_bound_by_their_transport_unless_workers_make_batches_all_the_time(made_ms, kind):
    drain = a_drain(ready=30, ready_ns=600 * MS, slices={"wall_ns": made_ms * MS, "cpu_ns": made_ms * MS, "trainer_cpu_ns": 40 * MS})

    assert judge(make_point(1, [drain]), cores=2).kind == kind


def test_receipts_that_wait_for_a_worker_that_computes_are_no_transport():
    # A transform in Python holds its worker's interpreter, and the thread that sends its batches waits for it.
    slices = {"wall_ns": 70 * MS, "cpu_ns": 70 * MS, "process_ns": 80 * MS, "trainer_cpu_ns": 10 * MS}
    point = make_point(1, [a_drain(ready=30, ready_ns=600 * MS, slices=slices)])

    assert judge(point, cores=2).kind == "cpu"


def test_workers_that_are_started_anew_most_of_the_time_bind_the_loader():
    edges = [an_edge(100, end_ms=30, batches=4)] * 10
    # A batch takes its worker 10 ms.
    point = make_point(2, [a_drain(2, batches=30, edges=edges, slices={"wall_ns": 100 * MS, "cpu_ns": 100 * MS})])

    bound = judge(point, cores=2)
    # Nor is what a worker takes for one batch, 20 ms with two of them, any start.
    assert point.starting == pytest.approx(110 / 160)
    assert bound.kind == "start"
    assert said_by(bound) == "69 % of its time goes to starting workers at each epoch, of 4 batches, and to ending them"
    # The making of a first batch that takes long is no start.
    slow = {"wall_ns": 1000 * MS, "cpu_ns": 1000 * MS}
    assert judge(make_point(2, [a_drain(2, batches=30, edges=edges, slices=slow)]), cores=2).kind != "start"


def test_idle_workers_and_nothing_ready_is_undetermined():
    bound = judge(make_point(4, [a_drain(4, slices={"wall_ns": 80 * MS, "cpu_ns": 80 * MS})]), cores=8)

    assert bound.kind == "undetermined"
    assert bound.reason.code == UNEVEN.code


def test_no_share_in_the_evidence_is_over_one():
    # Each look counts whole a batch that began before it.
    bound = judge(make_point(1, [a_drain(1, slices={"wall_ns": 103 * MS})]), cores=2.0)

    assert {row.name: row.value for row in bound.rows}["making batches, of the loader's time"] == 1.0


def test_half_and_half_is_mixed():
    drain = a_drain()
    drain["slices"] = [a_slice(cpu_ns=(55 - 10 * (number % 2)) * MS) for number in range(8)]

    bound = judge(make_point(1, [drain]), cores=2)
    assert bound.kind == "undetermined"
    assert said_by(bound).startswith("mixed: 50 %")


def test_without_slices_nothing_is_judged():
    assert judge(make_point(1, [a_drain(batches=0, reason="broken") | {"slices": []}]), cores=2).kind == "undetermined"


def test_the_readings_of_a_real_run_are_understood(real_bench: Any):
    notes = real_bench("case_study_data")["notes"]
    drains = [note for note in notes if note["part"] == "drain"]
    parts = next(note for note in notes if note["part"] == "parts")

    point = own_point(drains)
    rows = {row.kind: row for row in stages(parts, point)}
    # 4 ms of sleep for each of two files.
    assert rows["read"].ms > 8
    assert rows["read"].note == "time.sleep"
    assert rows["decode"].note == "ImagingDecoder.decode"
    assert judge(point, cores=2, first=drains[0], calls=read_builtin_calls(parts)).kind == "blocked"
    speeds = [made.samples_per_s.value for made in curve(drains) if made.samples_per_s is not None]
    assert len(speeds) == 4
    assert np.all(np.diff(speeds[1:]) > 0)
