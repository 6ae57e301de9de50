"""What `slowstep bench` says to do next: the number of workers that makes the whole faster, or the half that decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slowstep.calibration.between_runs import BETWEEN_STARTS
from slowstep.document.next_step import NextStep
from slowstep.prove.bench.loader_speed import Point
from slowstep.prove.bench.over_starts import over_starts
from slowstep.prove.bench.overlap import Whole, put_together
from slowstep.prove.stats.figures import Figure
from slowstep.workflow.bench_request import BenchRequest
from slowstep.workflow.next_command.after_bench import BenchLacks, after_bench, better_workers, kept_workers_gain, most_gain


def about(value: float, share: float = 0.01) -> Figure:
    return Figure(value=value, draws=np.random.default_rng(1).normal(value, share * value, 500))


def a_point(workers: int, rate: float) -> Point:
    nothing: dict[str, Any] = {"start_s": None, "slices": (), "reason": None, "few": False}
    nothing |= {"epoch_batches": None, "edge_s": None, "making_s": None}
    counts = {"batches": 100, "samples": 1600, "seen": 1600, "ready": 0, "ready_ns": 0}
    return Point(workers=workers, samples_per_s=about(rate), batches_per_s=about(rate / 16), bytes_per_s=None, **counts, **nothing)


def wholes_of(rates: dict[int, float], compute: float, share: float = 0.01, core_ms: Figure | None = None) -> dict[int, Whole]:
    return {
        workers: put_together(about(rate), about(compute, share), None, workers=workers, core_ms=core_ms) for workers, rate in rates.items()
    }


def following(own: int, rates: dict[int, float], compute: float, what: Any = "data", **changes: Any) -> NextStep:
    wholes = wholes_of(rates, compute, **changes)
    asked = BenchRequest(what=what, words=("train.py",))
    return after_bench(asked, ["train.py"], point=a_point(own, rates[own]), whole=wholes[own], wholes=wholes)


def test_no_workers_are_named_where_they_are_the_fastest():
    found = following(2, {0: 39_279, 1: 358, 2: 369, 4: 238}, compute=14_550)

    assert found == NextStep(
        command="slowstep prove --levers workers=0 train.py",
        why="without workers no batch is moved between processes: up to 29x the throughput by these figures",
    )


def test_a_loader_that_is_faster_without_workers_need_not_make_the_training_faster():
    # Alone 1.5 times as fast; after each other both take longer than beside each other.
    found = following(2, {0: 150, 1: 90, 2: 100, 4: 95}, compute=120)

    assert found.command == "slowstep prove train.py"


def test_the_fewest_workers_that_are_nearly_as_fast_as_any():
    found = following(1, {0: 100, 1: 100, 2: 200, 4: 205}, compute=1000)

    assert found == NextStep(
        command="slowstep prove --levers workers=2 train.py",
        why="with 2 workers the loader is faster: up to 2.0x the throughput by these figures",
    )


def test_workers_are_worth_no_more_than_the_compute_lets_them():
    # Four times the loader, and a training that is nearly as fast already.
    assert following(1, {0: 100, 1: 100, 2: 200, 4: 400}, compute=105).command == "slowstep prove train.py"


def test_where_loading_is_little_of_the_sum_the_compute_decides():
    found = following(0, {0: 45_141}, compute=789, what="compute")

    assert found == NextStep(
        command="slowstep run --capture train.py",
        why="computing takes 98 % of the time, so more workers would gain little: this shows what it consists of",
    )


def test_a_small_gain_by_workers_that_an_unsure_compute_may_swallow_is_not_advised():
    rates = {0: 4218.0, 1: 3733.0, 2: 2831.0, 4: 3027.0}

    assert following(0, rates, compute=553, share=0.01).command == "slowstep prove --levers workers=1 train.py"
    assert following(0, rates, compute=553, share=0.5).command == "slowstep run --capture train.py"


def test_what_other_workers_gain_is_said_as_the_most_that_halves_which_may_hinder_each_other_can():
    # Of 1.63 by predictions that each overlap fully the training makes 1.40; it makes less than predicted before, too.
    here, there = put_together(about(581), about(3203), about(300), workers=1), put_together(about(949), about(3203), None, workers=2)
    wholes = {1: here, 2: there}

    found = after_bench(BenchRequest(what="data", words=("t.py",)), ["t.py"], point=a_point(1, 581), whole=here, wholes=wholes)

    assert found.why == "with 2 workers the loader is faster: up to 3.2x the throughput by these figures"
    assert most_gain(there, here) == pytest.approx(949 / 300, rel=0.05)
    # A training that is faster than its own prediction has halves that were slower alone: no less can be gained for it.
    assert most_gain(there, replace(here, real=about(900))) == pytest.approx(949 / 581, rel=0.05)


def test_the_most_that_is_gained_holds_what_is_not_known_of_the_compute():
    sure, unsure = wholes_of({0: 100, 4: 400}, 200, share=0.0), wholes_of({0: 100, 4: 400}, 200, share=0.2)
    asked, point = BenchRequest(what="data", words=("t.py",)), a_point(0, 100)

    found = after_bench(asked, ["t.py"], point=point, whole=unsure[0], wholes=sure, unsure=unsure)

    assert found.why == "with 4 workers loading and computing overlap: up to 3.8x the throughput by these figures"


@pytest.mark.parametrize(("rates", "own", "workers"), [((1600.0, 1400.0), 0, 1), ((500.0, 1400.0), 0, 1), ((900.0, 2000.0), 1, 2)])
def test_no_gain_of_another_start_is_over_the_most_that_is_said(rates: tuple[float, float], own: int, workers: int):
    # Whatever the spread between starts does to either half, where they hinder each other in nothing.
    draw = np.random.default_rng(5)

    def a_start() -> dict[int, Whole]:
        loader, compute = np.array(rates) * np.exp(draw.normal(0, BETWEEN_STARTS.value, 2))
        speeds = {own: loader, workers: loader * max(workers, 1) / max(own, 1)}
        halves = {n: (over_starts(about(speed), of_next=True), over_starts(about(compute), of_next=True)) for n, speed in speeds.items()}
        return {n: put_together(*each, None, workers=n) for n, each in halves.items()}

    exceeded = 0
    for _ in range(200):
        said, later = a_start(), a_start()
        most = most_gain(said[workers], said[own])
        assert most is not None
        # By more than is printed: halves that take about as long gain twice at most, and the bound comes close to that.
        exceeded += later[workers].predicted.value / later[own].predicted.value > 1.02 * most

    # 2.5 % are meant.
    assert exceeded / 200 < 0.05


def test_on_a_busy_machine_no_gain_is_said():
    wholes, asked = wholes_of({0: 100, 1: 100}, compute=100), BenchRequest(what="data", words=("t.py",))

    found = after_bench(asked, ["t.py"], point=a_point(0, 100), whole=wholes[0], wholes=wholes, is_busy=True)

    assert found == NextStep(
        command="slowstep prove --levers workers=1 t.py",
        why="with 1 worker loading and computing overlap",
    )


def test_a_gain_whose_upper_end_too_few_blocks_tell_is_not_said():
    untold = Figure(value=100, draws=np.linspace(0, 110, 500))
    here, there = put_together(untold, about(1e6), untold, workers=1), put_together(about(1000), about(1e6), None, workers=2)

    found = after_bench(BenchRequest(what="data", words=("t.py",)), ["t.py"], point=a_point(1, 100), whole=here, wholes={1: here, 2: there})

    assert found.why == "with 2 workers the loader is faster"


def test_where_loading_counts_workers_are_advised():
    found = following(0, {0: 40, 1: 40, 2: 88, 4: 173}, compute=286)

    assert found == NextStep(
        command="slowstep prove --levers workers=4 train.py",
        why="with 4 workers loading and computing overlap: up to 4.9x the throughput by these figures",
    )


def test_workers_that_are_started_anew_most_of_the_time_are_to_be_kept():
    # Of the loader's 4 ms a sample 3 are starts of workers; the compute takes 1 ms.
    point = replace(a_point(2, 250), epoch_batches=4.0, edge_s=0.2, making_s=0.008)
    assert point.starting == pytest.approx(0.75)
    whole = put_together(point.samples_per_s, about(1000), None, workers=2, starting_ms=point.edge_ms)

    found = after_bench(BenchRequest(what="data", words=("t.py",)), ["t.py"], point=point, whole=whole, wholes={2: whole})

    assert found.command == "slowstep prove --levers persistent-workers t.py"
    assert str(found.why).startswith("with workers that are kept between epochs: about 3.7x")
    # Nothing to keep where the starts are a small part of it, or there are no workers.
    assert kept_workers_gain(replace(point, edge_s=0.01), whole) < 1.1
    assert kept_workers_gain(replace(point, workers=0), whole) == 1
    # 3 ms are half of the 6 ms that a sample takes in the training, and three quarters of the 4 that are predicted.
    assert kept_workers_gain(point, replace(whole, real=about(1000 / 6))) == pytest.approx(2, rel=0.05)


def test_halves_that_take_about_as_long_are_said_to():
    rates = {2: 453.0}
    wholes = {2: put_together(about(453, 0.1), about(470, 0.1), None, workers=2)}
    asked = BenchRequest(what="data", words=("t.py",))

    found = after_bench(asked, ["t.py"], point=a_point(2, rates[2]), whole=wholes[2], wholes=wholes)

    assert found.why == "loading and computing take about as long: this tests what helps"


@pytest.mark.parametrize(("what", "command"), [("data", "slowstep prove train.py"), ("compute", "slowstep bench data train.py")])
def test_a_loader_that_decides_and_that_workers_do_not_help(what, command):
    # Both together need more cores than there are: overlapped they are no faster.
    found = following(0, {0: 100, 1: 100, 2: 100, 4: 100}, compute=400, what=what, core_ms=about(12.4))

    assert found.command == command
    assert str(found.why).startswith("loading takes longer")


def test_of_a_curve_without_the_loaders_own_number_nothing_is_compared():
    assert better_workers(3, wholes_of({1: 100, 2: 400}, compute=1000)) is None


def test_the_next_command_asks_for_the_same_place_and_time():
    rates = {0: 100.0, 1: 100.0, 2: 200.0, 4: 205.0}
    wholes = wholes_of(rates, compute=1000)
    asked = BenchRequest(what="data", words=("train.py",), budget_s=40.0, out="my runs", allow_writes=True, sandbox="copy")
    place = "--out 'my runs' --allow-writes --sandbox copy"

    measured = after_bench(asked, ["train.py"], point=a_point(1, 100.0), whole=wholes[1], wholes=wholes)
    other = after_bench(asked, ["train.py"], point=a_point(1, 100.0), whole=None, wholes={})
    interrupted = after_bench(asked, ["train.py"], point=None, whole=None, wholes={}, ended_by="interrupted")
    without = after_bench(asked, ["train.py"], point=None, whole=None, wholes={})

    assert measured.command == f"slowstep prove --levers workers=2 {place} train.py"
    assert other.command == f"slowstep bench compute --budget 40s {place} train.py"
    assert interrupted.command == f"slowstep bench data --budget 40s {place} train.py"
    assert without.command == "slowstep run --out 'my runs' train.py"


@pytest.mark.parametrize(("what", "budget_s", "words"), [("data", 15.0, ""), ("compute", 15.0, ""), ("data", 60.0, " --budget 180s")])
def test_where_the_time_was_too_short_for_the_compute_the_next_command_has_more_of_it(what, budget_s, words):
    asked = BenchRequest(what=what, words=("train.py",), budget_s=budget_s)

    found = after_bench(asked, ["train.py"], point=a_point(0, 100.0), whole=None, wholes={}, lacks=BenchLacks(steps=True))

    assert found.command == f"slowstep bench {what}{words} train.py"
    assert found.why == "too few steps were made in the time to tell how fast the compute is"


def test_a_script_that_ended_well_without_training_is_not_run_again():
    asked = BenchRequest(what="data", words=("t.py",))

    def found(**more):
        return after_bench(asked, ["t.py"], point=None, whole=None, wholes={}, ended_by="never trained", **more).command

    assert found(nothing_trained=True) is None
    assert found() == "slowstep run t.py"
    assert found(failed=True) == "slowstep bench data t.py"
