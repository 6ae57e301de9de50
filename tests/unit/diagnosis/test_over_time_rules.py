"""Rules about time that is not every step: trainings that have the problem, and trainings close to it that have not.

That their gains are true ones is tested on simulated trainings (tests/unit/workflow/test_true_gains.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from judged import answer_of, code_of, finding, judged, named, unjudged, values
from made_measurements import MS, SCRIPT, every, fed, measurements, merged, per_step
from made_parts import function_part, lines_part
from slowstep.analyses.compute.graphs import GraphGrowth
from slowstep.analyses.input.input_sizes import InputSizes
from slowstep.analyses.input.stragglers import Stragglers
from slowstep.analyses.ledger.saves import GrowingSaves
from slowstep.analyses.machine.machine_topic import Pace
from slowstep.analyses.over_time.growth import PartGrowth
from slowstep.analyses.over_time.over_time import OccasionalEvent, Unsteady
from slowstep.analyses.over_time.pace import find_machine_pace
from slowstep.analyses.over_time.startup import Startup
from slowstep.analyses.over_time.startup_parts import StartupKind, StartupPart
from slowstep.analyses.over_time.written import WrittenBytes
from slowstep.analyses.steps.trends import Trend
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.rules.input.iterator_recreated import MOST_BY_LISTS
from slowstep.findings import NotJudged
from slowstep.parts import BACKWARD, BODY, COLLECTION, MODELS, NOT_ATTRIBUTED, OPTIMIZER, VALIDATION, Part, PartKind
from slowstep.timeline.timeline import Frame

STEPS = 200
Measured = dict[str, Any]
FUNCTION = function_part("output", "save_mask_images", "train.py", 80)


def over_time(**changes: Any) -> Measured:
    return {"over_time": changes}


def unsteady(*, variation: float = 0.6, part: Part = BODY, body_ms: float = 60.0) -> Measured:
    """Steps that differ, by the part, over 15 s or as many as steps of another length take."""
    return {"ledger": {BODY: body_ms}, **over_time(unsteady=Unsteady(variation=variation, part=part, part_share=0.6))}


def varying(spread: float = 0.6, slow: float = 1.0, seed: int = 0) -> Measured:
    """Steps that differ one by one, and are slower for a fifth of the run; how even the machine's pace is told by them alone."""
    body = 60.0 * np.exp(np.random.default_rng(seed).normal(0.0, spread, STEPS))
    body[60:100] *= slow
    measured = unsteady() | {"ledger": {BODY: body}}
    return measured | {"pace": find_machine_pace(measurements(**measured).ledger)}


def event(part: Part, k: int, ms: float, *, name: str | None = None, maybe_larger: bool = False) -> OccasionalEvent:
    """What takes so much longer in every k-th step; known where it has a name."""
    ns = per_step(every(k, ms, STEPS), STEPS)
    return OccasionalEvent(
        name=name,
        known=name is not None,
        part=part,
        every_steps=float(k) if STEPS // k > 1 else None,
        count=STEPS // k,
        ns=ns,
        maybe_larger=maybe_larger,
    )


def stalls(part: Part = BACKWARD, k: int = 10, ms: float = 60.0, **more: Any) -> Measured:
    usual = 12.0 if part == BACKWARD else 0.0
    return {"ledger": {part: np.asarray(every(k, ms, STEPS)) + usual}, **over_time(events=(event(part, k, ms, **more),))}


def validates(k: int, ms: float, passes: int = 0) -> Measured:
    made = stalls(VALIDATION, k, ms, name="validation")
    return merged(made, over_time(restarts={"count": passes, "used_up": passes}))


def grows(
    part: Part, first_ms: float = 1.0, by_ms: float = 20.0, *, sure: float = 0.9, writes: float | None = 0.0, both: bool = False
) -> Measured:
    """A part that takes ever longer, evenly; `sure` is how much of that is certain."""
    course = np.linspace(first_ms, first_ms + by_ms, STEPS)
    others = 18.5 - (first_ms if part.stage == "compute" else 0.0)
    trend = Trend(first=first_ms * MS, last=(first_ms + by_ms) * MS, growth_low=sure * by_ms * MS, growth_likely=by_ms * MS)
    growth = PartGrowth(
        part=part,
        trend=trend,
        first_ns=first_ms * MS,
        above_ns=per_step(course - first_ms, STEPS),
        writes_share=writes,
        is_models=part in MODELS,
        both=both,
    )
    whole = Trend(
        first=(others + first_ms) * MS, last=(others + first_ms + by_ms) * MS, growth_low=sure * by_ms * MS, growth_likely=by_ms * MS
    )
    return {"ledger": {part: course}, **over_time(growth=growth, trend=whole)}


def graph(nodes: float = 20, parameters: float = 1000, kept: float = 0, beside_ms: float | None = None) -> Measured:
    """What a step's graph has more of at the end."""
    return over_time(
        graph=GraphGrowth(
            nodes=(20, nodes + kept),
            parameters=(1000, parameters),
            kept=(0, kept),
            same_parameters_low_ns=None if beside_ms is None else beside_ms * MS,
        )
    )


def restarts(count: int, each_ms: float = 0.0, *, with_workers: bool = True, cut_short: bool = False, **more: Any) -> Measured:
    """Iterators that are made so often, and how long each takes to start."""
    begun = np.zeros(STEPS)
    begun[np.linspace(0, STEPS - 1, count).astype(int)] = each_ms
    made = {
        "count": count,
        "with_workers": count if with_workers else 0,
        "used_up": 0 if cut_short else count,
        "cut_short": count if cut_short else 0,
        "batches_each": STEPS / count,
        "start_ns": per_step(begun, STEPS),
        **more,
    }
    return {"ledger": {Part("preprocess", PartKind.LOADER_START): begun}, **over_time(restarts=made)}


def passes(count: int, each_ms: float) -> Measured:
    """Passes over the input of a framework without loaders: nobody counts them."""
    return {"ledger": restarts(count, each_ms)["ledger"]}


def slow_samples(k: int, ms: float, *, of_samples: float = STEPS * 16.0, keeps: bool = False) -> Measured:
    """A sample in every k-th batch takes so long, and the training waits for it; of the others each takes 0.4 ms."""
    removed = every(k, ms, STEPS)
    count = STEPS // k
    found = Stragglers(
        count=count,
        of_samples=of_samples,
        steps=count,
        usual_ns=0.4 * MS,
        each_ns=ms * MS,
        named=((17, count // 2), (99, count // 2)),
        removed_ns=per_step(removed, STEPS),
        share_of_making=0.5,
        keep_the_lock=keeps,
    )
    return {"ledger": {Part("preprocess", PartKind.SAMPLES): removed}, **over_time(stragglers=found)}


def writes(first_bytes: float, last_bytes: float) -> Measured:
    return over_time(written=WrittenBytes(first_bytes=first_bytes, last_bytes=last_bytes, steadily=True))


def saves_grow(by_ms: float) -> Measured:
    above = np.linspace(0, 2 * by_ms, STEPS) * (np.arange(STEPS) % 5 == 4)
    part = Part("store", PartKind.SAVE, "torch.save")
    grown = GrowingSaves(count=40, first_bytes=8e6, last_bytes=40e6, above_ns=per_step(above, STEPS), parts=(part,))
    return {"ledger": {part: above + 0.001}, **over_time(growing_saves=grown)}


def started(
    seconds: float, trained_s: float = 60.0, last: StartupKind = StartupKind.SCRIPT, excess_s: float = 0.0, last_s: float = 2.0
) -> Measured:
    before = StartupPart(kind=StartupKind.BEFORE_IMPORT, of="torch", ns=int(seconds * 1e9))
    parts = (before, StartupPart(kind=last, ns=int(last_s * 1e9)))
    return over_time(startup=Startup(parts=parts, excess_ns=int(excess_s * 1e9)), trained_ns=int(trained_s * 1e9))


GROWING = grows(BACKWARD, 12.0)
BY_FILE = grows(FUNCTION, writes=0.9)

# What was measured, and the stage of the finding.
FIRING: dict[str, tuple[Measured, str]] = {
    "frequent-validation": (validates(5, 60.0), "output"),
    "frequent-validation once an epoch, longer than the epoch": (validates(25, 500.0, passes=8), "output"),
    "worker-restart": (restarts(8, 100.0), "preprocess"),
    "iterator-recreated": (restarts(STEPS, 10.0, cut_short=True), "preprocess"),
    "iterator-recreated of a serial loader whose epochs have one batch": (
        {"workers": 0, **restarts(STEPS, 40.0, with_workers=False)},
        "preprocess",
    ),
    "pipeline-restart": (passes(8, 100.0), "preprocess"),
    "straggler-samples": (slow_samples(4, 150.0), "preprocess"),
    "growing-step-time": (merged(GROWING, graph()), "compute"),
    "growing-step-time by a graph that is kept": (merged(GROWING, graph(kept=2000)), "compute"),
    "growing-step-time by a function": (grows(FUNCTION), "output"),
    "growing-file": (BY_FILE, "output"),
    "growing-file by an encoder that is in no stack": (merged(grows(FUNCTION), writes(0, 2e6)), "output"),
    "periodic-stall": (stalls(), "compute"),
}

ADVICE: dict[str, Measured] = {
    "frequent-validation": validates(25, 150.0, passes=8),
    "slow-start": started(60.0),
    "unstable-step-time": unsteady(),
}

# The same trainings with one fact changed: just under the threshold, or with the cause elsewhere.
CLOSE: dict[str, Measured] = {
    "frequent-validation that takes little": validates(25, 60.0),
    "frequent-validation seen twice": validates(100, 3000.0),
    "worker-restart of workers that stay": restarts(8, 100.0, with_workers=False),
    "worker-restart that is quick": restarts(8, 10.0),
    "worker-restart where epochs are left early": restarts(8, 100.0, cut_short=True),
    "iterator-recreated in epochs of one step": restarts(STEPS, 10.0),
    "iterator-recreated where epochs are left early": restarts(20, 30.0, cut_short=True),
    "iterator-recreated a few times": restarts(9, 100.0, cut_short=True, batches_each=1.0),
    "pipeline-restart that is quick": passes(8, 10.0),
    "pipeline-restart seen twice": passes(2, 900.0),
    "pipeline-restart of a loader": restarts(8, 100.0, with_workers=False),
    "straggler-samples that workers hide": slow_samples(12, 8.0),
    "straggler-samples seen twice": slow_samples(100, 900.0),
    "straggler-samples that are many": slow_samples(1, 60.0, of_samples=STEPS * 16.0),
    "growing-step-time by little": grows(BACKWARD, 12.0, 1.2),
    "growing-step-time that is not certain": grows(FUNCTION, sure=0.05),
    "growing-step-time by less than the machine's pace varied": grows(FUNCTION) | {"pace": Pace(spread=1.5, beyond_chance=1.5)},
    "growing-step-time of a file": BY_FILE,
    "growing-file that does not grow": {"ledger": {FUNCTION: 8.0}},
    "growing-file of too few bytes for its time": merged(grows(FUNCTION), writes(0, 2e4)),
    "growing-file of checkpoints that stay": saves_grow(0.1),
    "periodic-stall that is short": stalls(ms=3.0),
    "periodic-stall as often as workers have all made a batch": {"workers": 4, **stalls(k=4, ms=25.0)},
    "periodic-stall of forks at each epoch": merged(
        stalls(k=20, ms=25.0), over_time(restarts={"forks_per_step": 0.05, "batches_each": 20.0})
    ),
    "periodic-stall of what is known": stalls(name="checkpoint"),
    "periodic-stall of what waits for input": stalls(Part("preprocess", PartKind.SAMPLES)),
    "unstable-step-time of waits": unsteady(part=Part("preprocess", PartKind.SAMPLES)),
    "unstable-step-time that is usual": unsteady(variation=0.4),
    "unstable-step-time that is usual, at an uneven pace": unsteady(variation=0.4) | {"pace": Pace(spread=0.1, beyond_chance=0.1)},
    "unstable-step-time with the number of samples": {
        **ADVICE["unstable-step-time"],
        "samples": np.random.default_rng(1).choice([4.0, 8.0, 16.0, 32.0], STEPS),
    },
    "slow-start": {},
    "slow-start of a long training": started(60.0, trained_s=3600.0),
    "slow-start of which the first step is long": started(10.0, last=StartupKind.FIRST_STEP, excess_s=1.0),
}


@pytest.mark.parametrize("case", FIRING)
def test_a_training_with_the_problem_gets_its_rule_and_stage(case):
    measured, stage = FIRING[case]

    diagnosis = diagnose(measurements(**measured))

    verdict = diagnosis.verdict
    assert (verdict.state, verdict.rule, verdict.stage) == ("bottleneck", case.split()[0], stage), verdict.reason
    assert diagnosis.findings[0].claims


@pytest.mark.parametrize("rule", ADVICE)
def test_advice_has_no_gain_and_is_no_bottleneck(rule):
    m = measurements(**ADVICE[rule])

    assert finding(rule, m).gain.predicted is None
    assert diagnose(m).verdict.state == "healthy"


@pytest.mark.parametrize("case", CLOSE)
def test_a_training_close_to_the_problem_is_not_blamed_for_it(case):
    assert answer_of(case.split()[0], measurements(**CLOSE[case])) is None


@pytest.mark.parametrize(
    ("case", "name", "value"),
    [
        ("frequent-validation", "steps between them", 5),
        ("frequent-validation", "one validation", 60),
        ("worker-restart", "one start and end", 100),
        ("worker-restart", "batches between them", 25),
        ("iterator-recreated", "batches taken of each", 1),
        ("straggler-samples", "one of them", 150),
        ("growing-step-time by a graph that is kept", "of them from earlier steps", 2000),
        ("growing-step-time by a function", "it takes at the end", 21),
        ("growing-file", "in code that writes files", 0.9),
        ("periodic-stall", "longer by", 60),
    ],
)
def test_what_was_measured_is_shown(case, name, value):
    assert values(finding(case.split()[0], measurements(**FIRING[case][0])))[name] == pytest.approx(value)


@pytest.mark.parametrize(
    ("case", "removed_ms"),
    [
        ("frequent-validation", 60 / 5 / 2),
        ("straggler-samples", 150 / 4),
        ("periodic-stall", 60 / 10),
        # And what the steps after it are assumed to take longer, from nothing to 1.1 ms.
        ("growing-step-time by a function", 10.56),
    ],
)
def test_the_gain_is_of_what_the_fix_removes(case, removed_ms):
    m = measurements(**FIRING[case][0])

    gain = finding(case.split()[0], m).gain
    step_ms = float(m.step_ns.mean()) / MS
    assert gain.predicted == pytest.approx(step_ms / (step_ms - removed_ms), rel=0.01)
    assert gain.low < gain.predicted < gain.high


@pytest.mark.parametrize("seed", range(5))
def test_steps_that_differ_one_by_one_are_unstable_and_no_change_of_the_machines_pace(seed):
    assert finding("unstable-step-time", measurements(**varying(seed=seed))).advisory


@pytest.mark.parametrize(
    ("measured", "code"),
    [
        (varying(slow=3.0), "spread-by-its-pace"),
        (unsteady() | {"load": {"foreign_cores": 2.0}}, "spread-by-the-machine"),
        (unsteady(part=Part("compute", PartKind.CORE_WAIT)), "spread-by-core-waits"),
        (unsteady(body_ms=6.0), "spread-of-few-steps"),
        (unsteady(body_ms=600.0) | {"steps": 25}, "spread-of-few-steps"),
    ],
    ids=["its pace", "others use it", "too few cores", "a few seconds", "a few steps"],
)
def test_steps_that_vary_by_what_may_be_the_machine_are_not_judged(measured, code):
    answer = unjudged("unstable-step-time", measurements(**measured))

    assert answer is not None
    assert answer.reason.code == code
    # It could only have been advice.
    assert diagnose(measurements(**measured)).verdict.reason != answer.reason


@pytest.mark.parametrize("count", [1, 2])
def test_workers_that_were_started_too_seldom_to_judge_are_what_is_not_known(count):
    """Of two short epochs the start of many workers took a third: nothing said so."""
    m = measurements(workers=8, **restarts(count, 1500.0))

    answer = answer_of("worker-restart", m)
    assert isinstance(answer, NotJudged)
    assert answer.lever == "persistent-workers"
    assert diagnose(m).verdict.state == "undetermined"
    assert answer_of("worker-restart", measurements(workers=8, **restarts(count, 100.0))) is None


def test_at_better_the_indices_of_a_large_data_set_slow_the_trainings_own_work():
    """next(iter(loader)) of 400,000 samples: the lists took 3.1 times, without them it was 5.2 times as fast."""

    def gain(length: int) -> Any:
        measured = merged(
            FIRING["iterator-recreated of a serial loader whose epochs have one batch"][0], {"input": {"dataset_length": length}}
        )
        return finding("iterator-recreated", measurements(**measured)).gain

    none, many, most = gain(0), gain(400_000), gain(400_000_000)

    assert (many.predicted, many.low) == (none.predicted, none.low)
    assert none.high < many.high < most.high
    assert most.high == pytest.approx(none.high / (1 - MOST_BY_LISTS), rel=0.05)


@pytest.mark.parametrize(("collected_ms", "goes"), [(4.0, True), (1.0, False)], ids=["most of it", "a quarter of it"])
def test_garbage_that_is_mostly_collected_for_new_iterators_goes_with_them(collected_ms, goes):
    made = merged(restarts(STEPS, 10.0, cut_short=True), {"ledger": {COLLECTION: 4.5}})
    with_garbage = merged(made, over_time(restarts={"collected_ns": per_step(collected_ms, STEPS)}))

    answer = judged("iterator-recreated", measurements(**with_garbage))

    assert answer.counterfactual is not None
    removed = {name: getattr(answer.counterfactual, name).removed_ns.mean() / MS for name in ("expected", "pessimistic", "optimistic")}
    assert removed == pytest.approx({"expected": 10 + collected_ms, "pessimistic": 9, "optimistic": 14.5}, abs=0.1)
    assert (COLLECTION in answer.finding.claims) is goes


LIGHTNING = "/usr/lib/python3.11/site-packages/lightning/pytorch/loops/fit_loop.py"


def test_iterators_that_lightning_makes_are_kept_by_its_own_arguments():
    def fixes(file: str) -> tuple[Any, ...]:
        path = (
            Frame(file=SCRIPT, function="main", first_line=10, line=30),
            Frame(file=file, function="_FitLoop.run", first_line=1, line=2),
        )
        facts = {"trainer": {"facts": {"training_paths": {0: path}}}}
        return finding("iterator-recreated", measurements(**merged(FIRING["iterator-recreated"][0], facts))).fixes

    own = fixes("/home/user/project/loops/fit_loop.py")
    assert fixes(LIGHTNING)[0] != own[0]
    assert own == finding("iterator-recreated", measurements(**FIRING["iterator-recreated"][0])).fixes


def sized(growth: float) -> Measured:
    """Inputs of which the last are so many times as large as the first."""
    last = 1e6 * growth
    quarter = (last - 1e6) / 6
    return {"input": {"sizes": InputSizes(first_bytes=1e6 + quarter, last_bytes=last - quarter)}}


@pytest.mark.parametrize(("growth", "excused"), [(1.1, False), (2.0, True), (4.0, True)])
def test_a_model_whose_inputs_grow_as_fast_is_healthy(growth, excused):
    m = measurements(**merged(merged(GROWING, sized(growth)), graph()))

    assert code_of("growing-step-time", m) == ("grows-with-inputs" if excused else None)
    assert diagnose(m).verdict.state == ("healthy" if excused else "bottleneck")


@pytest.mark.parametrize(("both", "state"), [(True, "undetermined"), (False, "bottleneck")], ids=["all of it", "the backward alone"])
def test_a_model_that_grows_as_a_whole_by_inputs_of_unknown_size_is_not_judged(both, state):
    m = measurements(**merged(grows(BACKWARD, 12.0, both=both), graph()))

    assert code_of("growing-step-time", m) == ("grows-as-a-whole" if both else None)
    assert diagnose(m).verdict.state == state


@pytest.mark.parametrize(
    ("more", "code", "advisory"),
    [
        (graph(parameters=3000), "grows-with-parameters", True),
        (graph(parameters=3000, beside_ms=10.0), "grows-beside-parameters", False),
        (graph(nodes=80), "grows-by-operations", False),
        ({}, "graph-not-seen", False),
    ],
    ids=["more parameters", "while others stay the same", "more operations", "nobody saw"],
)
def test_a_model_that_does_ever_more_is_not_judged(more, code, advisory):
    answer = unjudged("growing-step-time", measurements(**merged(GROWING, more)))

    assert answer is not None
    assert answer.reason.code == code
    # Only what explains all of the growth leaves the training healthy.
    assert answer.advisory is advisory


@pytest.mark.parametrize(
    ("part", "device", "changes"),
    [(OPTIMIZER, "cpu", [True, False]), (OPTIMIZER, "cuda", [False]), (FUNCTION, "cpu", [False])],
    ids=["of an optimizer", "on a device", "of a function"],
)
def test_of_an_optimizer_that_grows_denormal_numbers_are_named_on_a_processor(part, device, changes):
    found = finding("growing-step-time", measurements(device=device, **merged(grows(part), graph())))

    # To flush them changes results; to look for what is kept does not.
    assert [fix.changes_numerics for fix in found.fixes] == changes


def test_to_detach_is_advised_only_where_a_graph_is_kept():
    kept, walked = (finding("growing-step-time", measurements(**merged(GROWING, graph(kept=kept)))).fixes for kept in (2000, 0))

    assert kept != walked


def test_what_grows_and_has_no_name_is_told_by_where_it_runs():
    """A list that the loop searches itself grew by "unattributed", and what "unattributed walks" was to be looked for."""
    found = finding("growing-step-time", measurements(**grows(NOT_ATTRIBUTED)))

    assert found.stage == "unattributed"
    assert all("unattributed" not in text for text in (found.title, found.gain.assumes, found.fixes[0].text))


@pytest.mark.parametrize(("stacks", "blamed"), [(4, False), (5, True)])
def test_growth_does_not_stand_on_a_few_stacks(stacks, blamed):
    m = measurements(stacks={FUNCTION: stacks}, **grows(FUNCTION))

    assert code_of("growing-step-time", m) == (None if blamed else "growth-by-few-stacks")
    assert ("slow-callback" in named(m)) is not blamed


def test_a_file_that_begins_with_nothing_never_takes_less_than_that():
    """A line through times that grow faster and faster begins below nothing: "-0 ms at first"."""
    measured = grows(FUNCTION, first_ms=0.001, writes=0.9)
    growth = measured["over_time"]["growth"]
    below = over_time(growth=replace(growth, trend=replace(growth.trend, first=-0.4e6)))

    found = finding("growing-file", measurements(**merged(measured, below)))

    assert values(found)["it takes at first"] == 0.0
    assert "-0" not in found.title


OPENING_MS, LONG_BYTES, GROWTH_BYTES = 2, 400_000, 2_000_000


@pytest.mark.parametrize("is_known", [True, False], ids=["bytes known", "unknown"])
def test_appending_spares_a_file_that_begins_long_all_but_its_opening(is_known):
    """Writing takes 10 ns a byte: "takes no longer than at first" leaves the 4 ms of what is there already."""
    measured = grows(FUNCTION, first_ms=OPENING_MS + 4, writes=0.9)
    m = measurements(**(merged(measured, writes(LONG_BYTES, LONG_BYTES + GROWTH_BYTES)) if is_known else measured))

    answer = judged("growing-file", m)

    left_ms = float((m.ledger.of_parts(FUNCTION) - answer.counterfactual.expected.removed_ns).mean()) / MS
    assert left_ms == pytest.approx(OPENING_MS if is_known else OPENING_MS + 4, abs=0.8)
    assert answer.counterfactual.pessimistic.removed_ns.mean() <= m.over_time.growth.above_ns.mean()
    assert answer.counterfactual.assumes.endswith("no longer than at first") is not is_known


def test_what_writes_a_growing_file_is_bounded_by_leaving_it_out():
    found = finding("growing-file", measurements(**BY_FILE, files={(FUNCTION.name, FUNCTION.place): SCRIPT}))

    assert (found.fixes[0].lever, found.fixes[0].bounded_by) == (None, "stub=__main__:save_mask_images")


def test_checkpoints_that_grow_are_named_beside_what_all_of_them_cost():
    m = measurements(**saves_grow(40.0))

    found = finding("growing-file", m)
    assert (found.stage, values(found)["last"]) == ("store", 40)
    assert named(m) == ["blocking-checkpoint", "growing-file"]


def test_lines_that_write_a_growing_file_are_said_in_the_plural():
    one, several = (
        finding("growing-file", measurements(**grows(lines_part("output", "train.py", 33, last), writes=0.9))) for last in (None, 36)
    )

    assert (" writes more " in one.title, " write more " in several.title) == (True, True)


@pytest.mark.parametrize(("maybe_larger", "judges"), [(True, False), (False, True)])
def test_a_step_that_takes_longer_as_a_whole_is_a_stall_only_where_it_has_no_more_to_compute(maybe_larger, judges):
    m = measurements(**stalls(maybe_larger=maybe_larger))

    assert isinstance(answer_of("periodic-stall", m), NotJudged) is not judges
    assert diagnose(m).verdict.state == ("bottleneck" if judges else "undetermined")


def test_slow_samples_are_named_by_index():
    found = finding("straggler-samples", measurements(**slow_samples(4, 150.0)))

    assert found.names is not None
    assert all(index in found.names for index in ("17", "99"))


@pytest.mark.parametrize(("workers", "keeps", "fixes"), [(0, False, 1), (1, False, 2), (1, True, 1)])
def test_only_workers_make_more_batches_ahead_of_slow_samples(workers, keeps, fixes):
    found = finding("straggler-samples", measurements(workers=workers, **slow_samples(4, 150.0, keeps=keeps)))

    assert len(found.fixes) == fixes


def test_workers_that_keep_up_with_uneven_batches_are_not_called_too_few():
    uneven = {"ledger": {Part("preprocess", PartKind.SAMPLES): every(8, 40.0, STEPS)}, "making_ms": 15.0}

    answer = unjudged("too-few-workers", measurements(**uneven))

    assert answer is not None
    assert (answer.reason.code, answer.lever) == ("workers-keep-up", "prefetch=8")


def test_workers_that_keep_up_but_for_few_slow_samples_are_no_second_finding():
    m = measurements(making_ms=15.0, **slow_samples(8, 150.0))

    assert named(m) == ["straggler-samples"]
    assert answer_of("too-few-workers", m) is None


def test_few_slow_samples_do_not_hide_that_all_are_made_serially():
    serial = fed(0, cpu_ms=20.5)
    removed = every(12, 60.0, STEPS)
    slow = slow_samples(12, 60.0)
    m = measurements(**merged(serial, {**slow, "ledger": {Part("preprocess", PartKind.SAMPLES): np.asarray(removed) + 20.5}}))

    diagnosis = diagnose(m)
    assert diagnosis.verdict.rule == "serial-loader"
    assert diagnosis.findings[0].also == ("straggler-samples",)


@pytest.mark.parametrize("at", [(100,), (100, 180)], ids=["once", "twice"])
def test_what_happened_once_or_twice_is_no_bottleneck_however_long_it_took(at):
    ms = np.zeros(STEPS)
    ms[list(at)] = 3000.0

    verdict = diagnose(measurements(ledger={FUNCTION: ms}, has_stacks=True)).verdict

    assert verdict.state != "bottleneck", verdict.reason


def test_compiling_at_each_start_is_spared_by_the_compilers_own_cache():
    found = finding("slow-start", measurements(**started(1.0, last=StartupKind.COMPILING, last_s=60.0)))

    assert "TORCHINDUCTOR_CACHE_DIR" in found.fixes[0].text
    # It makes no input.
    assert found.stage == "compute"


@pytest.mark.parametrize(("samples", "are_grouped"), [(8.0, False), (np.r_[np.full(STEPS - 1, 8.0), 4.0], True)])
def test_samples_are_not_grouped_by_length_where_all_steps_have_as_many(samples, are_grouped):
    found = finding("unstable-step-time", measurements(**ADVICE["unstable-step-time"], samples=samples))

    assert ("group samples" in found.fixes[0].text) is are_grouped


def test_a_slow_start_names_its_longest_part():
    found = finding("slow-start", measurements(**started(60.0)))

    assert (found.stage, values(found)["before the import of torch"]) == ("preprocess", 60.0)


@pytest.mark.parametrize("rule", ["worker-restart", "iterator-recreated", "straggler-samples"])
def test_what_holds_most_of_a_samples_making_is_named_beside_what_is_made_anew(rule):
    evidence = {row.name: row for row in finding(rule, measurements(**FIRING[rule][0])).evidence}

    assert evidence["most of making a sample in"].value == "__getitem__"
    assert evidence["most of making a sample in"].where == "100 %, data.py:20"
