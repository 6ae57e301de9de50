"""Steps that were simulated with and without a problem: the replay of the one must give the length of the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from made_traces import device, host, made_trace, step
from simulated_device import LAUNCH, Simulated, steps_of
from slowstep.analyses.device.operators import find_operators
from slowstep.analyses.events.tables import KERNELS, LOADER, REPLAY
from slowstep.analyses.replay import replay, scenarios, unjudged
from slowstep.analyses.replay.replay import choose_steps, find_replay

STEPS = 4


def simulate(body: Callable[[Simulated], None], steps: int = STEPS) -> Simulated:
    simulated = Simulated()
    for _ in range(steps):
        body(simulated)
        simulated.step()
    return simulated


def replayed(simulated: Simulated, scenario: str, **tables: pl.DataFrame) -> dict[str, Any]:
    """The scenario's row of the last step."""
    rows = find_replay(simulated.trace(), simulated.steps(), tables)
    assert rows.schema == REPLAY.schema
    return rows.filter(pl.col("scenario") == scenario).row(-1, named=True)


def expected_us(simulated: Simulated, scenario: str, **tables: pl.DataFrame) -> float:
    row = replayed(simulated, scenario, **tables)
    assert row["not_judged"] is None
    assert row["best_ns"] <= row["expected_ns"] <= row["worst_ns"]
    return float(row["expected_ns"] / 1000)


def chain(launches: int, kernel_us: float, python_us: float) -> Callable[[Simulated], None]:
    def body(simulated: Simulated) -> None:
        for _ in range(launches):
            simulated.work(python_us)
            simulated.launch(kernel_us)

    return body


def test_launches_free_leaves_the_kernels() -> None:
    launch_bound = simulate(chain(100, kernel_us=4.0, python_us=15.0))
    assert launch_bound.length_us == pytest.approx(100 * (15.0 + LAUNCH), rel=0.01)
    # What is left: the first launch's Python, 100 kernels, each the usual delay after the one before.
    assert expected_us(launch_bound, scenarios.LAUNCHES_FREE) == pytest.approx(100 * (4.0 + 1.5) + 20.0, rel=0.05)


def test_launches_free_gains_nothing_where_kernels_take_longer() -> None:
    device_bound = simulate(chain(20, kernel_us=200.0, python_us=15.0))
    assert expected_us(device_bound, scenarios.LAUNCHES_FREE) == pytest.approx(device_bound.length_us, rel=0.01)


def synchronized(simulated: Simulated, *, wait: bool) -> None:
    for _ in range(10):
        simulated.work(10.0)
        simulated.launch(100.0)
    if wait:
        simulated.wait()
        simulated.work(300.0)
    else:
        simulated.work(300.0)


def test_without_the_wait_the_host_runs_ahead() -> None:
    with_wait, without = (simulate(lambda s, wait=wait: synchronized(s, wait=wait), steps=8) for wait in (True, False))
    assert with_wait.length_us > 1.25 * without.length_us
    assert expected_us(with_wait, scenarios.NO_SYNCHRONIZATION) == pytest.approx(without.length_us, rel=0.02)


def read_back(simulated: Simulated, *, copy: bool) -> None:
    for _ in range(10):
        simulated.work(10.0)
        simulated.launch(100.0)
    if copy:
        simulated.copy_and_wait(20.0, "d2h", pageable=True, bytes=4)
    simulated.work(400.0)


def test_without_the_read_back_the_copy_goes_too() -> None:
    with_copy, without = (simulate(lambda s, copy=copy: read_back(s, copy=copy), steps=8) for copy in (True, False))
    assert expected_us(with_copy, scenarios.NO_READBACKS) == pytest.approx(without.length_us, rel=0.02)
    assert expected_us(with_copy, scenarios.NO_SYNCHRONIZATION) == pytest.approx(without.length_us + 20.0, rel=0.02)


def offloaded(simulated: Simulated, *, copy_us: float, sends: bool = True) -> None:
    """Gradients go to the host, which works on them, and sends parameters back."""
    for _ in range(10):
        simulated.launch(100.0)
    simulated.launch(copy_us, kind="d2h", name="Memcpy DtoH", call="cudaMemcpyAsync", pageable=False, bytes=8 << 20)
    simulated.wait(7)
    simulated.work(500.0, "aten::_foreach_add_", "operator")
    if sends:
        simulated.launch(50.0, kind="h2d", name="Memcpy HtoD", call="cudaMemcpyAsync", pageable=False, bytes=8 << 20)


def operators_of(simulated: Simulated) -> pl.DataFrame:
    return find_operators(simulated.trace(), simulated.steps())


def test_what_the_host_computes_on_and_sends_back_is_waited_for_without_its_copy_too() -> None:
    with_copy, without = (simulate(lambda s, us=us: offloaded(s, copy_us=us), steps=8) for us in (400.0, 0.0))
    row = replayed(with_copy, scenarios.NO_READBACKS, operators=operators_of(with_copy))
    assert row["expected_ns"] / 1000 == pytest.approx(without.length_us, rel=0.02)
    assert row["best_ns"] / 1000 == pytest.approx(without.length_us, rel=0.02)


def test_without_a_read_back_that_is_only_looked_at_the_host_runs_ahead() -> None:
    looked_at = simulate(lambda s: offloaded(s, copy_us=400.0, sends=False), steps=8)
    assert expected_us(looked_at, scenarios.NO_READBACKS, operators=operators_of(looked_at)) == pytest.approx(1000.0, rel=0.02)


def test_a_batch_that_is_loaded_and_copied_after_a_read_back_is_not_made_of_it() -> None:
    loading = simulate(lambda s: offloaded(s, copy_us=400.0), steps=8)
    before = [(row["start"] - 1.0, row["start"]) for row in loading.hosts if row["name"] == "cudaMemcpyAsync"]
    waits = [{"start_ns": round(a * 1000), "end_ns": round(b * 1000)} for a, b in before]
    loader = pl.DataFrame([{column.name: None for column in LOADER.columns} | wait for wait in waits], schema=LOADER.schema)
    expected = expected_us(loading, scenarios.NO_READBACKS, operators=operators_of(loading), loader=loader)
    assert expected == pytest.approx(1050.0, rel=0.02)


def fed(simulated: Simulated, *, copy_us: float) -> None:
    if copy_us:
        simulated.launch(copy_us, kind="h2d", name="Memcpy HtoD", call="cudaMemcpyAsync", pageable=False, bytes=10_000_000)
    for _ in range(10):
        simulated.launch(100.0)


def test_copies_overlapped_leave_the_kernels_way_until_the_link_binds() -> None:
    short, long = (simulate(lambda s, us=us: fed(s, copy_us=us), steps=8) for us in (400.0, 3000.0))
    assert short.length_us == pytest.approx(1400.0, rel=0.01)
    assert expected_us(short, scenarios.COPIES_OVERLAPPED) == pytest.approx(1000.0, rel=0.02)
    assert expected_us(long, scenarios.COPIES_OVERLAPPED) == pytest.approx(3000.0, rel=0.02)


def pageable(simulated: Simulated, *, pinned: bool) -> None:
    # 24 MB: 1000 us at the 24 GB/s of the A100's link.
    if pinned:
        simulated.launch(1000.0, kind="h2d", name="Memcpy HtoD", call="cudaMemcpyAsync")
    else:
        simulated.copy_and_wait(4000.0, "h2d", pageable=True, bytes=24_000_000)
    for _ in range(20):
        simulated.work(20.0)
        simulated.launch(60.0)


def test_pinned_copies_run_at_the_links_speed_beside_the_host() -> None:
    with_problem, without = (simulate(lambda s, pinned=pinned: pageable(s, pinned=pinned), steps=8) for pinned in (False, True))
    assert expected_us(with_problem, scenarios.COPIES_PINNED) == pytest.approx(without.length_us, rel=0.02)


def shared(simulated: Simulated) -> None:
    for _ in range(10):
        simulated.launch(200.0)
    simulated.after(20, 7)
    simulated.launch(1000.0, stream=20, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", bytes=50_000_000)
    simulated.after(7, 20)
    simulated.launch(50.0)


def test_exposed_communication_is_hidden_as_far_as_half_of_the_computing_reaches() -> None:
    exposed = simulate(shared)
    assert exposed.length_us == pytest.approx(3050.0, rel=0.02)
    # 2050 us of computing, half of it beside: 1025 of which 80 % hide 820.
    row = replayed(exposed, scenarios.COMMUNICATION_OVERLAPPED)
    assert row["expected_ns"] / 1000 == pytest.approx(3050.0 - 820.0, rel=0.02)
    assert row["best_ns"] / 1000 == pytest.approx(3050.0 - 1000.0, rel=0.02)
    assert row["worst_ns"] / 1000 == pytest.approx(3050.0 - 512.0, rel=0.02)


def test_a_kernel_of_another_stream_is_awaited_where_the_stream_was_told_to() -> None:
    """The collective waits for the computing: when that gets faster, it begins earlier."""
    mm = {"name": "ampere_sgemm_128x64_nn", "class": "matmul", "eligible": True, "tensor_core": False, "precision": "float32"}
    full = {column.name: None for column in KERNELS.columns} | mm
    kernels = pl.DataFrame([full], schema=KERNELS.schema)

    def body(simulated: Simulated, us: float = 1600.0) -> None:
        simulated.launch(us, name="ampere_sgemm_128x64_nn")
        simulated.after(20, 7)
        simulated.launch(500.0, stream=20, name="ncclKernel_AllReduce")
        simulated.after(7, 20)
        simulated.launch(100.0, name="vectorized_elementwise_kernel")

    row = replayed(simulate(body), scenarios.HALF_PRECISION, kernels=kernels)
    # A100: 312 against 19.5 TFLOP/s at best, 1.5 times at worst.
    assert row["best_ns"] / 1000 == pytest.approx(simulate(lambda s: body(s, 100.0)).length_us, rel=0.03)
    assert row["worst_ns"] / 1000 == pytest.approx(simulate(lambda s: body(s, 1600.0 / 1.5)).length_us, rel=0.03)


def test_a_stream_that_was_told_to_wait_does_so_once_the_host_is_earlier() -> None:
    """In the trace the host comes so late that nothing has to wait; without its callback the kernel waits for the other stream's copy."""

    def body(simulated: Simulated, callback: float = 3000.0) -> None:
        simulated.launch(1000.0, stream=20, kind="h2d", name="Memcpy HtoD", call="cudaMemcpyAsync")
        simulated.after(7, 20)
        simulated.work(callback, "[Callback]Slow.on_train_batch_start")
        simulated.launch(400.0)
        simulated.wait()

    assert expected_us(simulate(body), scenarios.NO_CALLBACKS) == pytest.approx(simulate(lambda s: body(s, 0.0)).length_us, rel=0.02)


def with_backward(simulated: Simulated, python_us: float = 10.0) -> None:
    for thread in (0, 1):
        for _ in range(20):
            simulated.work(python_us)
            simulated.launch(2.0, thread=thread)
    simulated.wait()


def test_the_backward_thread_is_a_part_of_the_main_one() -> None:
    """Its launches cannot begin before the main thread's end: launches for free shorten both."""
    slow = simulate(with_backward)
    fast = expected_us(slow, scenarios.LAUNCHES_FREE)
    assert slow.length_us == pytest.approx(40 * (10 + LAUNCH), rel=0.02)
    assert fast < 0.4 * slow.length_us


def loader_rows(simulated: Simulated) -> pl.DataFrame:
    waits = simulated.trace().table("host_events").filter(pl.col("name").cast(pl.String).str.contains("DataLoader"))
    rows = waits.select(pl.lit(0, pl.Int32).alias("step"), "start_ns", "end_ns", pl.col("name").cast(pl.String))
    return rows.with_columns(pl.lit(0, pl.Int64).alias("exposed_ns")).select(LOADER.schema.keys())


def waiting(simulated: Simulated, wait_us: float) -> None:
    simulated.work(wait_us, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__")
    for _ in range(10):
        simulated.work(20.0)
        simulated.launch(500.0)


def test_no_input_wait_leaves_the_receipt_and_then_the_device_binds() -> None:
    slow = simulate(lambda s: waiting(s, 10_000.0), steps=6)
    row = replayed(slow, scenarios.NO_INPUT_WAIT, loader=loader_rows(slow))
    # The device needs 5000 us a step, which the host hides its own 250 and the receipt of a batch behind.
    assert row["expected_ns"] / 1000 == pytest.approx(5000.0, rel=0.03)
    assert row["best_ns"] / 1000 == pytest.approx(5000.0, rel=0.03)


def test_no_input_wait_of_a_trace_without_a_device() -> None:
    def body(simulated: Simulated) -> None:
        simulated.work(10_000.0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        simulated.work(30_000.0, "aten::mm", "operator")

    slow = simulate(body)
    row = replayed(slow, scenarios.NO_INPUT_WAIT, loader=loader_rows(slow))
    assert row["best_ns"] == 30_000_000
    assert row["expected_ns"] == 30_300_000
    assert row["worst_ns"] == 32_000_000
    assert replayed(slow, scenarios.LAUNCHES_FREE)["not_judged"] == unjudged.NO_DEVICE_WORK.code
    trace = slow.trace()
    assert trace.trace is not None
    on_a_processor = find_replay(replace(trace, trace=replace(trace.trace, vendor=None)), slow.steps(), {})
    reasons = on_a_processor.filter(pl.col("scenario") == scenarios.SINGLE_PRECISION)["not_judged"].to_list()
    assert set(reasons) == {unjudged.ON_A_PROCESSOR.code}


def test_named_callbacks_and_writes_go() -> None:
    def body(simulated: Simulated) -> None:
        simulated.work(3_000.0, "aten::mm", "operator")
        simulated.work(1_000.0, "[Callback]LearningRateMonitor.on_train_batch_end")
        simulated.work(2_000.0, "save_checkpoint")

    assert expected_us(simulate(body), scenarios.NO_CALLBACKS) == pytest.approx(5_000.0)
    assert expected_us(simulate(body), scenarios.NO_WRITES) == pytest.approx(4_000.0)


def test_elementwise_runs_become_one_pass() -> None:
    def body(simulated: Simulated) -> None:
        simulated.launch(500.0, name="ampere_sgemm_128x64_nn")
        for _ in range(4):
            simulated.launch(90.0, name="void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>")

    chained = simulate(body, steps=6)
    row = replayed(chained, scenarios.FUSED_ELEMENTWISE)
    assert chained.length_us == pytest.approx(860.0, rel=0.01)
    assert row["best_ns"] / 1000 == pytest.approx(590.0, rel=0.02)
    assert row["worst_ns"] / 1000 == pytest.approx(590.0 + 90.0, rel=0.02)


def allocator_call(simulated: Simulated, name: str, us: float) -> None:
    start = simulated.now
    simulated.work(us)
    simulated.hosts.append(host(name, start, simulated.now, "runtime"))


@pytest.mark.parametrize("apart_us", [0.0, 0.5])
def test_a_wait_takes_no_longer_for_allocator_calls_after_it(apart_us: float) -> None:
    """Times in whole microseconds have one call return when the next begins."""

    def body(simulated: Simulated, *, copies: bool = True) -> None:
        simulated.launch(300.0)
        if copies:
            simulated.launch(2500.0, kind="d2d", name="Memcpy DtoD", call="cudaMemcpyAsync", pageable=False, bytes=512 << 20)
        simulated.wait(7)
        for name, us in (("cudaFree", 1200.0), ("cudaMalloc", 900.0)):
            simulated.work(apart_us)
            allocator_call(simulated, name, us)
        simulated.launch(100.0)
        simulated.wait(7)

    truth = simulate(lambda s: body(s, copies=False)).length_us
    assert expected_us(simulate(body), scenarios.NO_DEVICE_COPIES) == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("name", ["cudaFree", "cudaMalloc"])
def test_an_allocation_that_waited_for_what_is_gone_takes_its_own_time(name: str) -> None:
    def body(simulated: Simulated, *, copies: bool = True) -> None:
        simulated.launch(300.0)
        if copies:
            simulated.launch(2500.0, kind="d2d", name="Memcpy DtoD", call="cudaMemcpyAsync", pageable=False, bytes=512 << 20)
        start = simulated.now
        simulated.now = max(simulated.now, simulated.free[7]) + 1200.0
        simulated.hosts.append(host(name, start, simulated.now, "runtime"))
        simulated.launch(100.0)
        simulated.wait(7)

    truth = simulate(lambda s: body(s, copies=False)).length_us
    assert truth > 1500
    assert expected_us(simulate(body), scenarios.NO_DEVICE_COPIES) == pytest.approx(truth, rel=0.02)


def test_allocator_calls_take_nothing() -> None:
    def body(simulated: Simulated, *, malloc: bool = True) -> None:
        for _ in range(5):
            if malloc:
                allocator_call(simulated, "cudaMalloc", 200.0)
            simulated.launch(20.0)

    truth = simulate(lambda s: body(s, malloc=False)).length_us
    assert expected_us(simulate(body), scenarios.NO_ALLOCATOR_CALLS) == pytest.approx(truth, rel=0.1)


def test_twice_the_batch_is_told_for_the_present_batch() -> None:
    launch_bound = simulate(chain(50, kernel_us=4.0, python_us=15.0))
    assert expected_us(launch_bound, scenarios.LARGER_BATCH) == pytest.approx(launch_bound.length_us / 2, rel=0.02)
    device_bound = simulate(chain(50, kernel_us=100.0, python_us=15.0))
    assert expected_us(device_bound, scenarios.LARGER_BATCH) == pytest.approx(device_bound.length_us, rel=0.02)


def test_host_work_between_steps_goes() -> None:
    def body(simulated: Simulated, *, between: float = 500.0) -> None:
        simulated.work(between)
        for _ in range(10):
            simulated.work(20.0)
            simulated.launch(10.0)

    truth = simulate(lambda s: body(s, between=0.0)).length_us
    assert expected_us(simulate(body), scenarios.NO_WORK_BETWEEN_STEPS) == pytest.approx(truth, rel=0.1)


def test_unexplained_delays_leave_the_step_unjudged() -> None:
    hosts = [host("cudaLaunchKernel", 0, 5, "runtime", correlation=1), host("cudaLaunchKernel", 5, 10, "runtime", correlation=2)]
    devices = [device("a", 6, 100, correlation=1), device("b", 900, 1000, correlation=2)]
    timeline = made_trace(hosts=hosts, devices=devices, steps=[step(0, 0, 20)])
    rows = find_replay(timeline, steps_of(timeline), {})
    unchanged = rows.filter(pl.col("scenario") == scenarios.UNCHANGED).row(0, named=True)
    assert unchanged["residual_ns"] == pytest.approx(790_000, rel=0.01)
    assert unchanged["not_judged"] == unjudged.DELAYS_IN_STEP.code
    assert rows["expected_ns"].null_count() == rows.height


def test_a_step_that_only_empties_the_queue_is_not_judged() -> None:
    """Its length depends on what earlier steps left: alone it would take as long as the host does."""
    simulated = Simulated()
    for launches, python in ((100, 0.0), (5, 4000.0)):
        for _ in range(launches):
            simulated.launch(100.0)
        simulated.work(python)
        simulated.step()
    row = replayed(simulated, scenarios.UNCHANGED)
    assert row["not_judged"] == unjudged.REBUILT_OTHERWISE.code


def test_a_collective_without_bytes_is_not_merged_and_small_ones_are() -> None:
    def body(simulated: Simulated, size: int | None = 1000) -> None:
        for _ in range(10):
            simulated.launch(30.0, name="ncclDevKernel_AllReduce", bytes=size)

    unknown = replayed(simulate(lambda s: body(s, None)), scenarios.COLLECTIVES_MERGED)
    assert unknown["not_judged"] == unjudged.SHARED_BYTES_UNSEEN.code
    assert expected_us(simulate(body, steps=6), scenarios.COLLECTIVES_MERGED) == pytest.approx(30.0, rel=0.1)


def test_an_empty_trace_and_one_without_launches() -> None:
    empty = made_trace()
    assert find_replay(empty, steps_of(empty), {}).is_empty()
    lonely = made_trace(devices=[device("a", 0, 10)], steps=[step(0, 0, 20, thread=None)])
    rows = find_replay(lonely, steps_of(lonely), {})
    assert set(rows["scenario"]) == set(scenarios.SCENARIOS)
    assert rows["not_judged"].null_count() == 0


def test_five_of_many_steps_are_replayed_the_slowest_and_the_median_among_them() -> None:
    lengths = np.random.default_rng(1).integers(1000, 2000, 101)
    chosen = choose_steps(lengths)
    assert len(chosen) == 5
    assert len(set(chosen)) == 5
    assert chosen == choose_steps(lengths)
    # Where not all of them fit, the first ones do.
    assert [lengths[step] for step in chosen[:2]] == [np.median(lengths), lengths.max()]
    assert sorted(choose_steps(lengths[:4])) == [0, 1, 2, 3]


def test_of_large_steps_fewer_are_replayed_and_of_one_too_large_none(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = simulate(chain(20, kernel_us=4.0, python_us=15.0), steps=6)
    one = 2 * 20  # its launches and its kernels
    for most, replayed_steps in ((5 * one, 5), (3 * one + 5, 3), (one, 1)):
        monkeypatch.setattr(replay, "EVENTS_AT_MOST", most)
        rows = find_replay(simulated.trace(), simulated.steps(), {})
        assert rows["step"].n_unique() == replayed_steps
        assert rows["step"].is_sorted()
        assert rows.filter(pl.col("scenario") == scenarios.UNCHANGED)["not_judged"].null_count() == replayed_steps

    monkeypatch.setattr(replay, "EVENTS_AT_MOST", one - 1)
    rows = find_replay(simulated.trace(), simulated.steps(), {})
    assert set(rows["scenario"]) == set(scenarios.SCENARIOS)
    reasons = {unjudged.reason_of(*kept) for kept in rows.select("not_judged", "not_judged_values").rows()}
    assert reasons == {unjudged.STEP_TOO_LARGE(events=40, most=39)}


@pytest.mark.parametrize(("most", "events"), [(119, 120), (239, 240), (240, None)])
def test_a_trace_without_steps_that_is_too_large_to_be_replayed_is_told_so(
    most: int, events: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 120 kernels, launched by as many calls; more kernels than can be replayed are known before the calls are read."""
    monkeypatch.setattr(replay, "EVENTS_AT_MOST", most)
    simulated = simulate(chain(20, kernel_us=4.0, python_us=15.0), steps=6)
    ends = pl.col("end_ns", "host_end_ns").last()
    window = simulated.steps().with_columns(ends, mark=pl.lit("window")).head(1)

    rows = find_replay(simulated.trace(), window, {})

    kept = rows.filter(pl.col("scenario") == scenarios.UNCHANGED).select("not_judged", "not_judged_values").row(0)
    if events is None:
        assert kept == (None, None)
    else:
        assert unjudged.reason_of(*kept) == unjudged.TRACE_TOO_LARGE(events=events, most=most)


def test_a_trace_without_steps_tells_nothing_of_what_lies_between_them() -> None:
    simulated = simulate(chain(20, kernel_us=4.0, python_us=15.0), steps=1)
    steps = simulated.steps().with_columns(mark=pl.lit("window"))
    rows = find_replay(simulated.trace(), steps, {})
    for scenario in (scenarios.NO_WORK_BETWEEN_STEPS, scenarios.LARGER_BATCH):
        assert rows.filter(pl.col("scenario") == scenario)["not_judged"].to_list() == [unjudged.NO_STEPS_SHOWN.code]
    assert rows.filter(pl.col("scenario") == scenarios.LAUNCHES_FREE)["not_judged"].to_list() == [None]
