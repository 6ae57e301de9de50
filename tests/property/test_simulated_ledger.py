"""One training, written out as a recording, as a trace and as probes: sources that see all of it give its own account to the nanosecond,
and the bounds of others contain it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from few import few
from how_many import how_many
from made_recordings import START_NS
from simulated_recording import RECORDED_SAVE, write_recording
from simulated_training import CALLBACK, LATENCY, LOADER, NAMED, RAN_DRY, RETURN, SAVE, Account, Program, program
from slowstep.analyses.events.parts import BETWEEN_OPERATORS, FORWARD, LAUNCH, NO_LAUNCH, NOTHING_RECORDED, rows_of
from slowstep.analyses.events.tables import STEPS
from slowstep.analyses.ledger import seen_from_host
from slowstep.analyses.ledger.charge import DEVICE, charge, charged_ledger
from slowstep.analyses.ledger.idle import CALLS
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.recording_ledger import move_counted
from slowstep.analyses.ledger.trace_ledger import RANKS, build_trace_ledger
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.steps.trace_steps import find_trace_steps
from slowstep.parts import BACKWARD, BODY, DEVICE_WORK, NOT_ATTRIBUTED, OPTIMIZER, UNKNOWN, Part
from slowstep.sources.recording import SOURCE
from slowstep.timeline.clocks import DeviceClock, on_host
from slowstep.timeline.intervals import innermost
from slowstep.timeline.probes import Probes, seen_by_probes
from slowstep.timeline.spine import Counted, DeviceIntervals, HostLane, KnownLanes, Labelled, Stretches

SEEDS, FROM_AFAR = 25, 200
WAIT = NAMED[LOADER]
# What recordings and traces call by other names.
SAME = {RECORDED_SAVE: NAMED[SAVE], FORWARD: BODY, BETWEEN_OPERATORS: BODY, NOTHING_RECORDED: NOT_ATTRIBUTED}


def found(ledger: Ledger) -> Account:
    return Counter(
        {(step, part): ns for part, row in zip(ledger.parts, ledger.ns.tolist(), strict=True) for step, ns in enumerate(row) if ns}
    )


def in_same_words(account: Account) -> Account:
    same: Account = Counter()
    for (step, part), ns in account.items():
        same[step, SAME.get(part, part)] += ns
    return same


def recorded(made: Program, folder: Path, **asking: int) -> tuple[Ledger, Edges]:
    """The ledger of its recording, and the steps that this is of."""
    m = measure_recording(SOURCE.read(write_recording(made, folder, **asking)))
    edges = m.steps.edges_ns - START_NS
    return replace(m.ledger, parts=tuple(SAME.get(part, part) for part in m.ledger.parts)), (edges[:-1], edges[1:])


def traced(made: Program, steps: Edges, clock: DeviceClock | None = None, *, behind_ns: int = 0) -> Ledger:
    """The ledger of its trace, of the same steps, by a device's clock that is so far behind the host's, which `clock` is known of it."""
    trace = made.trace()
    own = trace.table("device_events").with_columns(pl.col("start_ns", "end_ns") - behind_ns)
    trace = replace(trace, tables={**trace.tables, "device_events": own})
    rows = pl.DataFrame({"start_ns": steps[0], "end_ns": steps[1]}).with_row_index("step")
    rows = rows.with_columns(number="step", mark=pl.lit("ProfilerStep"), thread=0, host_start_ns="start_ns", host_end_ns="end_ns")
    ledger, _ = build_trace_ledger(trace, rows.select(pl.col(column.name).cast(column.type) for column in STEPS.columns), clock=clock)
    return ledger


def long_programs(most: int, **drawn: bool) -> Iterator[tuple[int, Program]]:
    """Programs of as many steps as a recording needs, so that some are left after its warm-up."""
    return ((seed, program(seed, steps=12, **drawn)) for seed in range(how_many(most)))


Edges = tuple[np.ndarray, np.ndarray]


def marked(made: Program) -> Edges:
    """The steps as the host has them."""
    return np.array(made.marks[:-1]), np.array(made.marks[1:])


def charged(made: Program, steps: Edges, device: DeviceIntervals) -> Ledger:
    lanes, parts = made.lanes()

    def part(code: int) -> Part:
        if code <= DEVICE:
            return DEVICE_WORK
        return {-1: LAUNCH, -2: NO_LAUNCH, -3: NOTHING_RECORDED}[code] if code < 0 else RAN_DRY if code >= CALLS else parts[code]

    return charged_ledger(charge(steps, lanes, device)[0], lambda codes: rows_of(map(part, codes.tolist())), len(steps[0]))


def seen_from_afar(account: Account) -> Account:
    """What the device worked on is not seen."""
    device = {part for _, part in RANKS}
    seen: Account = Counter()
    for (step, part), ns in account.items():
        seen[step, DEVICE_WORK if part in device else part] += ns
    return seen


def check_bounds(ledger: Ledger, account: Account, steps: Edges) -> None:
    np.testing.assert_array_equal(ledger.ns.sum(axis=0), steps[1] - steps[0])
    low, high = (ledger.ns if side is None else side for side in (ledger.low, ledger.high))
    assert {part for _, part in account} <= {*ledger.parts}
    for row, part in enumerate(ledger.parts):
        true = np.array([account[step, part] for step in range(ledger.steps)])
        assert (low[row] <= true).all(), part
        assert (true <= high[row]).all() or part == UNKNOWN, part
        if part != UNKNOWN:
            least, most = ledger.bounds(part)
            assert least <= true.sum() <= most


@pytest.mark.parametrize(("streams", "updates"), few([(2, 3), (1, 1), (1, 3), (2, 1)], every=4))
def test_a_trace_gives_the_account_to_the_nanosecond(streams: int, updates: int) -> None:
    for seed in range(how_many(SEEDS)):
        made = program(seed, streams=streams, updates=updates)
        trace = made.trace()
        steps, _ = find_trace_steps(trace)

        ledger, _ = build_trace_ledger(trace, steps)

        assert found(ledger) == made.account(steps["start_ns"].to_list(), steps["end_ns"].to_list()), seed


def test_a_recording_and_a_trace_of_a_host_that_computes_give_the_account_to_the_nanosecond(tmp_path: Path) -> None:
    for seed, made in long_programs(20, has_device=False):
        ledger, steps = recorded(made, tmp_path / str(seed))
        account = made.account_of_host(*(edges.tolist() for edges in steps))

        assert found(ledger) == account, seed
        assert in_same_words(found(traced(made, steps))) == account, seed


def test_a_recording_a_trace_and_probes_of_one_training_of_a_device_agree(tmp_path: Path) -> None:
    for seed, made in long_programs(20):
        ledger, steps = recorded(made, tmp_path / str(seed))
        edges = [edges.tolist() for edges in steps]
        account = made.account(*edges)

        assert found(traced(made, steps)) == account, seed
        check_bounds(charged(made, steps, seen_by_probes(made.issued(), made.asked(), LATENCY)), seen_from_afar(account), steps)
        check_bounds(ledger, made.account_of_host(*edges), steps)
        assert ledger.ns.sum() == ledger.total_of(UNKNOWN), seed


def test_the_bounds_of_a_recording_that_asked_the_device_contain_the_account_nine_times_in_ten(tmp_path: Path) -> None:
    held = []
    for seed, made in long_programs(40):
        ledger, steps = recorded(made, tmp_path / str(seed), asks=400, seed=seed)
        account = made.account_of_host(*(edges.tolist() for edges in steps))

        np.testing.assert_allclose(ledger.ns.sum(axis=0), steps[1] - steps[0])
        # Bounds that contain all would contain the account too.
        assert UNKNOWN not in ledger.parts
        for part in {part for _, part in account}:
            least, most = ledger.bounds(part)
            held.append(least <= sum(ns for (_, own), ns in account.items() if own == part) <= most)
    assert np.mean(held) > 0.85, np.mean(held)


@pytest.mark.parametrize(("streams", "updates", "awaits"), few([(2, 3, 0.5), (2, 3, 0.0), (1, 1, 0.0), (2, 1, 1.0)], every=2))
def test_the_bounds_of_a_trace_of_the_host_alone_contain_the_account(
    streams: int, updates: int, awaits: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_from_host, "LATENCY_NS", LATENCY)
    monkeypatch.setattr(seen_from_host, "RETURN_NS", RETURN + 1)
    surely: Account = Counter()
    for seed in range(how_many(SEEDS)):
        made = program(seed, streams=streams, updates=updates, awaits=awaits)
        trace = made.trace(shows_device=False)
        steps, _ = find_trace_steps(trace)

        ledger, _ = build_trace_ledger(trace, steps)

        edges = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
        check_bounds(ledger, seen_from_afar(made.account(*(edge.tolist() for edge in edges))), edges)
        surely.update({part: ledger.bounds(part)[0] for part in ledger.parts})
    # Bounds that contain all would contain the account too.
    told = (DEVICE_WORK,) if awaits == 1.0 else (DEVICE_WORK, NAMED[LOADER], NAMED[CALLBACK], RAN_DRY)
    assert min(surely[part] for part in told) > 0


@pytest.mark.parametrize("updates", few([3, 1], every=2))
def test_the_bounds_of_probes_contain_the_account(updates: int) -> None:
    for seed in range(how_many(FROM_AFAR)):
        made = program(seed, updates=updates)
        steps, account = marked(made), seen_from_afar(made.account(*marked(made)))

        check_bounds(charged(made, steps, seen_by_probes(made.issued(), made.asked(), LATENCY)), account, steps)
        check_bounds(charged(made, steps, seen_by_probes(*made.issued_in_groups(), LATENCY)), account, steps)


@pytest.mark.slow
def test_the_bounds_of_a_device_with_a_clock_of_its_own_contain_the_account() -> None:
    for seed in range(how_many(FROM_AFAR)):
        made, draw = program(seed), random.Random(seed)
        steps, account = marked(made), seen_from_afar(made.account(*marked(made)))
        offset, wrong = draw.randint(-5000, 5000), draw.randint(0, 30)
        from_ns, until_ns = sorted(draw.sample(range(made.marks[0], made.marks[-1]), 2))
        own = made.device()
        own = replace(own, **{name: getattr(own, name) - offset for name in ("start_low_ns", "start_high_ns", "end_low_ns", "end_high_ns")})
        low = offset - draw.randint(0, wrong)
        clock = DeviceClock(offset_low_ns=low, offset_high_ns=low + wrong, from_ns=from_ns, until_ns=until_ns)

        check_bounds(charged(made, steps, on_host(own, clock)), account, steps)


@pytest.mark.parametrize("streams", few([2, 1], every=2))
def test_the_bounds_of_a_trace_with_two_clocks_contain_the_account(streams: int) -> None:
    for seed in range(how_many(SEEDS)):
        made, draw = program(seed, streams=streams), random.Random(seed)
        steps, behind, low, high = marked(made), draw.randint(-5000, 5000), draw.randint(0, 15), draw.randint(0, 15)

        ledger = traced(made, steps, DeviceClock(offset_low_ns=behind - low, offset_high_ns=behind + high), behind_ns=behind)

        check_bounds(ledger, made.account(*(edges.tolist() for edges in steps)), steps)


def test_a_trace_whose_device_is_off_by_what_is_known_gives_the_account_to_the_nanosecond() -> None:
    for seed in range(how_many(SEEDS)):
        made = program(seed)
        steps = marked(made)

        ledger = traced(made, steps, DeviceClock(offset_low_ns=700, offset_high_ns=700), behind_ns=700)

        assert found(ledger) == made.account(*(edges.tolist() for edges in steps)), seed


def test_an_exact_device_has_no_bounds_and_the_account_of_its_trace() -> None:
    for seed in range(how_many(FROM_AFAR)):
        made = program(seed)
        ledger = charged(made, marked(made), made.device())

        assert found(ledger) == seen_from_afar(made.account(*marked(made))), seed
        assert ledger.low is None


@pytest.mark.slow
def test_work_that_was_recorded_for_a_part_of_the_time_leaves_the_rest_unknown() -> None:
    for seed in range(how_many(FROM_AFAR)):
        made, draw = program(seed), random.Random(seed)
        steps, account = marked(made), seen_from_afar(made.account(*marked(made)))
        begin, end = sorted(draw.sample(range(made.marks[0], made.marks[-1]), 2))
        own = made.device()
        kept = (own.end_low_ns > begin) & (own.start_low_ns < end)

        ledger = charged(made, steps, replace(own.rows(np.flatnonzero(kept)), complete=Stretches(np.array([begin]), np.array([end]))))

        check_bounds(ledger, account, steps)


@pytest.mark.slow
def test_asking_often_tells_much() -> None:
    """Bounds that contain all would contain the account too."""
    surely: Account = Counter()
    whole: Account = Counter()
    for seed in range(how_many(FROM_AFAR)):
        made = program(seed, asks=1.0)
        steps = marked(made)
        ledger = charged(made, steps, seen_by_probes(made.issued(), made.asked(), LATENCY))
        surely.update({part: ledger.bounds(part)[0] for part in ledger.parts})
        whole.update({part: ns for (_, part), ns in seen_from_afar(made.account(*steps)).items()})

    told = {part: surely[part] / whole[part] for part in (DEVICE_WORK, NAMED[LOADER], NAMED[SAVE], NAMED[CALLBACK], RAN_DRY)}
    assert min(told.values()) > 0.5, told


def test_what_the_host_does_beside_a_busy_device_is_charged_to_no_callback() -> None:
    made = Program()
    for _ in range(4):
        made.marks.append(made.now)
        made.launch("kernel", 1000)
        made.do(CALLBACK, 400)
        made.ask()
        made.synchronize()
    made.marks.append(made.now)

    ledger = charged(made, marked(made), seen_by_probes(made.issued(), made.asked(), LATENCY))

    assert ledger.bounds(NAMED[CALLBACK])[1] <= 4 * LATENCY < 0.01 * ledger.whole
    assert ledger.bounds(DEVICE_WORK)[0] >= 0.9 * ledger.whole


def test_what_the_host_does_beside_an_idle_device_is_charged_to_the_callback() -> None:
    made = Program()
    for _ in range(4):
        made.marks.append(made.now)
        made.launch("kernel", 10)
        made.synchronize()
        made.do(CALLBACK, 400)
    made.marks.append(made.now)

    ledger = charged(made, marked(made), seen_by_probes(made.issued(), made.asked(), LATENCY))

    assert ledger.bounds(NAMED[CALLBACK]) == (1600, 1600)


def test_a_host_that_asks_nothing_knows_nothing_but_when_it_issued_work() -> None:
    made = Program()
    made.marks.append(made.now)
    made.do(CALLBACK, 100)
    made.launch("kernel", 10)
    made.do(CALLBACK, 400)
    made.marks.append(made.now)
    nothing = Probes(at_ns=np.zeros(0, np.int64), work=np.zeros(0, np.int64), ended=np.zeros(0, np.bool_))

    ledger = charged(made, marked(made), seen_by_probes(made.issued(), nothing, LATENCY))

    assert ledger.bounds(NAMED[CALLBACK]) == (100, 500)
    assert ledger.total_of(UNKNOWN) == 405


def test_counters_of_a_compiled_function_tell_what_a_window_waited_to_the_nanosecond() -> None:
    """A step is a call of several updates, which fetches its batches itself; counters are read every second call."""
    updates, between = 4, 2
    for seed in range(how_many(20)):
        made = program(seed, steps=30, has_device=False)
        inside = {WAIT, BODY, BACKWARD, OPTIMIZER}
        edges = np.array([*made.marks[:-1:updates], made.now])
        starts, ends, parts = zip(*((a, b, BODY if part in inside else part) for a, b, part in made.did()), strict=True)
        at, owner = innermost(np.array(starts), np.array(ends), edges)
        lane = HostLane(thread=0, named=Labelled(at[:-1], at[1:], owner))
        known = [*parts, NOT_ATTRIBUTED]
        steps = edges[:-1], edges[1:]
        whole, _ = charge(steps, KnownLanes(training=0, lanes={0: lane}))
        opaque = charged_ledger(whole, lambda codes, known=known: rows_of(known[code] for code in codes.tolist()), len(edges) - 1)
        account = made.account_of_host(edges[:-1].tolist(), edges[1:].tolist())
        waited = np.array([account[step, WAIT] for step in range(opaque.steps)])
        windows = range(0, opaque.steps, between)
        counted = [
            Counted(
                start_ns=int(edges[first]),
                end_ns=int(edges[min(first + between, opaque.steps)]),
                count=updates * between,
                total_ns=int(waited[first : first + between].sum()),
            )
            for first in windows
        ]

        ledger = move_counted(opaque, *steps, counted, out_of=BODY, into=WAIT)

        np.testing.assert_allclose(ledger.ns.sum(axis=0), np.diff(edges), rtol=1e-12)
        for first in windows:
            assert ledger.of_parts(WAIT)[first : first + between].sum() == pytest.approx(waited[first : first + between].sum(), rel=1e-12)
        for part in {part for _, part in account} - inside:
            assert ledger.total_of(part) == sum(ns for (_, own), ns in account.items() if own == part)


def test_a_counter_takes_no_more_than_there_is() -> None:
    ledger = Ledger(parts=(BODY,), ns=np.array([[10.0, 30.0]]))
    begins, ends = np.array([0, 10]), np.array([10, 40])
    counted = [Counted(start_ns=0, end_ns=40, count=2, total_ns=1000)]

    moved = move_counted(ledger, begins, ends, counted, out_of=BODY, into=WAIT)

    assert (moved.total_of(WAIT), moved.total_of(BODY)) == (40.0, 0.0)
