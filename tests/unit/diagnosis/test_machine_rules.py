"""Rules about what was read beside the training: memory, cores, threads, accelerators."""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, finding, judged, named, unjudged, values
from made_measurements import GIB, MIB, MS, device, measurements
from made_pipelines import slow_map
from slowstep.analyses.compute.products import Multiplying, PassProducts
from slowstep.analyses.machine.machine import Throttling
from slowstep.analyses.machine.memory import Limit, MemoryGrowth
from slowstep.diagnosis.engine import diagnose
from slowstep.findings import NotJudged
from slowstep.frameworks._known import all_words
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import Part, PartKind

WAITING = Part("compute", PartKind.CORE_WAIT)
BUSY = {"foreign_cores": 2.0}


def queued(ms: float) -> dict[Part, float]:
    """Of each step the training thread waits so long for a core."""
    return {WAITING: ms}


def growth(last: float, *, first: float = GIB, window_s: float = 4.0, low: float = 1.0, **more: Any) -> MemoryGrowth:
    """Memory at the end of the window; `low` is the slowest quarter's pace by the mean one."""
    per_s = (last - first) / window_s
    usual = {"per_s": per_s, "low_per_s": low * per_s, "high_per_s": per_s, "in_trainer": True, "readings": 40}
    return MemoryGrowth(first_bytes=first, last_bytes=last, **{**usual, **more})


def memory(grown: MemoryGrowth | None = None, left: float | None = 32 * GIB, of: float = 64 * GIB, **more: Any) -> dict[str, Any]:
    limit = None if left is None else Limit(of="the machine", limit_bytes=int(of), left_bytes=int(left))
    return {"machine": {"memory": {"resident_bytes": float(GIB), "growth": grown, "limit": limit, **more}}}


LEAK = growth(2 * GIB)
MANY: dict[str, Any] = {"cores": 16.0, "machine": {"threads": 1, "idle_cores": 14.0}}
PHYSICAL: dict[str, Any] = {"trainer": {"facts": {"physical_cores": 8}}}
SHARED: dict[str, Any] = {"threads": 1, "idle_cores": 0.85, "tree_cores": 1.2}
TWO: dict[str, Any] = {"cores": 2.0, "machine": {"threads": 1, "idle_cores": 0.97, "tree_cores": 1.0}}


def threads_on(threads: int, cores: int) -> dict[str, Any]:
    """That many threads, all of which compute while the model does, on physical cores of which nobody else uses one."""
    used = 0.97 * threads
    machine = {"threads": threads, "idle_cores": cores - used, "tree_cores": used}
    return {"cores": float(cores), "machine": machine, "trainer": {"facts": {"physical_cores": cores}}}


def small_beside(share: float, *, products: int = 400_000_000, longest_ms: float = 0.5) -> dict[str, Any]:
    """A thousand operations to a step of 19.5 ms on one of four cores, `share` of which are products of matrices, backward and forward."""
    count = round(share * 19.5 / 1.5 / longest_ms)
    each = Multiplying(
        kind="matrices", shape=(256, 256), count=count, products=products // 2, backward=products, moved=200_000, moved_back=400_000,
        longest_ns=longest_ms * MS,
    )  # fmt: skip
    given = threads_on(1, 4)
    given["trainer"]["facts"]["graph_nodes"] = 1000
    return {**given, "compute": {"products": PassProducts(operations=(each,), unknown=())}}


QUOTA: dict[str, Any] = {"quota_cores": 2.0, "throttling": Throttling(share=0.6, cores=1.0)}
BOUND: dict[str, Any] = {"cores_at_start": 4, "cores_now": 1, "tree_cores": 1.0, "threads": 1}


def on_device(**changes: Any) -> dict[str, Any]:
    return {"device": "cuda", "machine": {"devices": (device(**changes),)}}


FIRING: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # Rule, what was measured, and evidence (name: value) that must stand in it.
    "foreign load": ("foreign-load", {"load": BUSY, "ledger": queued(2)}, {"cores used by others": 2.0}),
    "memory that grows": ("memory-growth", memory(LEAK), {"grown over the window": 1024.0}),
    "memory that grows and no limit known": ("memory-growth", memory(LEAK, left=None), {"grown over the window": 1024.0}),
    "little of the machine left": ("memory-near-limit", memory(left=GIB), {"least that was left": 1024.0}),
    "little of a group's limit left": ("memory-near-limit", memory(left=GIB / 2, of=10 * GIB), {"least that was left": 512.0}),
    "swapping": ("memory-near-limit", memory(swap_in_per_s=5 * MIB), {"swapped in": 5.0}),
    "one thread on many cores": ("idle-cores", MANY, {"threads for one operation": 1}),
    "three threads on four cores": ("idle-cores", threads_on(3, 4), {"threads for one operation": 3}),
    "four threads on sixteen cores": ("idle-cores", threads_on(4, 16), {"threads for one operation": 4}),
    "twelve threads on sixteen cores": ("idle-cores", threads_on(12, 16), {"threads for one operation": 12}),
    "large products beside many small operations": ("idle-cores", small_beside(0.4), {"computing that divides among threads": 7.5 / 19.5}),
    "one thread on two cores, of which little else runs on the other": ("idle-cores", TWO, {"cores idle": 0.97}),
    "more threads than cores": (
        "thread-contention",
        {"machine": {"threads": 16, "queueing": 3.0}, "ledger": queued(3)},
        {"threads that wait for a core": 3.0},
    ),
    "threads of two training processes": (
        "thread-contention",
        {"machine": {"threads": 4, "ranks": 2}, "ledger": queued(3)},
        {"training processes": 2},
    ),
    "a quota smaller than the threads": (
        "thread-contention",
        {"cores": 16.0, "machine": QUOTA, "ledger": queued(3)},
        {"quota": 2.0, "threads for one operation": 16},
    ),
    "a quota and no delay seen": ("thread-contention", {"cores": 16.0, "machine": QUOTA}, {"quota": 2.0}),
    "a library that binds the process": (
        "thread-contention",
        {"machine": BOUND, "ledger": queued(4)},
        {"cores that it may use now": 1, "cores at its start": 4},
    ),
    "a device in a low state": ("device-throttled", on_device(state=8), {"performance state": "P8"}),
    "a hot device": ("device-throttled", on_device(lowered={"heat (hardware)": 1.0}), {"lowered: heat (hardware)": 1.0}),
    "a device whose power was limited": (
        "device-throttled",
        on_device(lowered={"power limit": 0.5}, power_limit_w=350.0),
        {"power": 500.0},
    ),
    "a device whose clocks were set": (
        "device-throttled",
        on_device(lowered={"clocks set by an administrator": 1.0}, sm_mhz=1000.0),
        {"clock": 1000.0},
    ),
    "another tenant": ("shared-device", on_device(shared=1.0, others_bytes=3.0 * GIB), {"memory that they hold": 3072.0}),
    "an idle device": ("low-device-use", on_device(busy_share=0.2), {"some kernel ran": 0.2}),
}

SILENT: dict[str, tuple[str, dict[str, Any]]] = {
    "a little foreign load": ("foreign-load", {"load": {"foreign_cores": 0.7}}),
    "memory that stays": ("memory-growth", memory(growth(GIB))),
    "a cache that fills up": ("memory-growth", memory(growth(2 * GIB, low=0.0))),
    "a few MiB": ("memory-growth", memory(growth(GIB + 50 * MIB))),
    "a small share of much": ("memory-growth", memory(growth(60.5 * GIB, first=60 * GIB))),
    "growth that takes days to matter": ("memory-growth", memory(LEAK, left=1e6 * GIB, of=2e6 * GIB)),
    "a fifth left": ("memory-near-limit", memory(left=2 * GIB, of=10 * GIB)),
    "a small share of a large machine left": ("memory-near-limit", memory(left=60 * GIB, of=1024 * GIB)),
    "pages that come back now and then": ("memory-near-limit", memory(swap_in_per_s=20_000.0)),
    "threads that are not used themselves": ("idle-cores", {**MANY, "machine": {"threads": 9, "idle_cores": 14.0}}),
    "seven threads on eight cores": ("idle-cores", threads_on(7, 8)),
    "threads of which workers do what seems used": ("idle-cores", {**threads_on(4, 8), "demand": {"cpu_ns": 60 * MS, "workers": 2}}),
    "small operations beside large ones that only move": ("idle-cores", small_beside(0.4, products=4_000_000)),
    "small operations beside a few products": ("idle-cores", small_beside(0.1)),
    "small operations, products too": ("idle-cores", small_beside(0.4, longest_ms=0.05)),
    "operations too short to be divided": ("idle-cores", {**MANY, "trainer": {"facts": {"graph_nodes": 2000}}}),
    "two cores of which the training keeps one busy": ("idle-cores", {**TWO, "machine": SHARED}),
    "a thread for each physical core": ("idle-cores", {**MANY, **PHYSICAL, "machine": {"threads": 8, "idle_cores": 8.0}}),
    "a training that waits for its input": ("idle-cores", {**MANY, "ledger": {Part("read", PartKind.BLOCKED): 60.0}}),
    "more threads than cores and no delay": ("thread-contention", {"machine": {"threads": 16}}),
    "a delay and no more threads than cores": ("thread-contention", {"ledger": queued(5)}),
    "a quota that is seldom used up": (
        "thread-contention",
        {"cores": 16.0, "machine": {"quota_cores": 2.0, "throttling": Throttling(share=0.1, cores=0.1)}},
    ),
    "threads that each have a core": ("thread-contention", {"machine": {**BOUND, "cores_now": 4}, "ledger": queued(4)}),
    "fewer cores and no delay": ("thread-contention", {"machine": BOUND}),
    "a device at its best": ("device-throttled", on_device()),
    "a device at its own power limit": ("device-throttled", on_device(lowered={"power limit": 1.0}, sm_mhz=1500.0)),
    "nobody else": ("shared-device", on_device(shared=0.0)),
    "a device that is busy": ("low-device-use", on_device(busy_share=0.6)),
    "a training on the processor beside an idle device": ("low-device-use", {"machine": {"devices": (device(busy_share=0.0),)}}),
    "a training on the processor beside a throttled device": ("device-throttled", {"machine": {"devices": (device(state=8),)}}),
}


@pytest.mark.parametrize("name", FIRING)
def test_a_rule_fires_and_shows_what_was_measured(name: str) -> None:
    rule, measured, evidence = FIRING[name]

    found = finding(rule, measurements(**measured))

    shown = values(found)
    assert {key: shown[key] for key in evidence} == pytest.approx(evidence)
    # Nothing of the machine has a gain that could be predicted, so none of it is called the bottleneck.
    assert found.gain.predicted is None


def test_a_link_that_is_narrower_than_the_device_has_is_seen_beside_it() -> None:
    found = finding("low-device-use", measurements(**on_device(busy_share=0.2, link=(3, 4))))

    (link,) = (row for row in found.evidence if row.name == "link while it worked")
    assert (link.value, link.where) == ("PCIe generation 3, 4 lanes", "of at most PCIe generation 5, 16 lanes")


@pytest.mark.parametrize("name", SILENT)
def test_a_rule_is_silent_on_what_is_nearly_so(name: str) -> None:
    rule, measured = SILENT[name]

    assert answer_of(rule, measurements(**measured)) is None


def test_a_healthy_training_beside_a_foreign_load_is_busy_and_not_blamed() -> None:
    diagnosis = diagnose(measurements(load={"foreign_cores": 3.0}, ledger=queued(6)))

    assert diagnosis.verdict.state == "healthy"
    (found,) = diagnosis.findings
    assert (found.rule, found.claims, found.outside) == ("foreign-load", (), True)
    # The first three are shown, and a page of 80 columns has a third of them for names.
    assert [row.name for row in found.evidence[:3] if len(row.name) > 80 // 3] == []


def test_memory_that_is_used_up_within_the_hour_is_told_before_everything_else() -> None:
    m = measurements(ledger=queued(8), machine={"threads": 16, **memory(LEAK, left=4 * GIB)["machine"]})

    assert named(m) == ["memory-growth", "thread-contention"]
    assert finding("memory-growth", m).urgent
    # It is no reason why the training is slow.
    verdict = diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("undetermined", None)


def test_memory_that_lasts_for_hours_is_told_last() -> None:
    m = measurements(ledger=queued(8), machine={"threads": 16, **memory(LEAK, left=4000 * GIB, of=9000 * GIB)["machine"]})

    assert named(m) == ["thread-contention", "memory-growth"]
    assert not finding("memory-growth", m).urgent


def test_memory_that_no_longer_recording_would_outlive_is_told_of_a_short_window() -> None:
    m = measurements(**memory(left=8 * GIB, early=growth(2 * GIB)))

    found = finding("memory-growth", m)
    assert found.urgent
    assert values(found)["used up in"] == pytest.approx(8 * 4 / 60)


@pytest.mark.parametrize(
    ("early", "left", "is_pressing"),
    [
        (growth(2 * GIB), 80 * GIB, True),
        (growth(2 * GIB), 8000 * GIB, False),
        (growth(2 * GIB, readings=3), 8 * GIB, True),
        (None, 8 * GIB, False),
        (growth(2 * GIB, low=0.0), 8 * GIB, False),
        (growth(GIB + 50 * MIB), 4 * GIB, False),
    ],
    ids=["within the hour", "for long", "few readings", "of a worker", "settles", "little"],
)
def test_other_growth_of_a_short_window_is_not_judged(early: MemoryGrowth | None, left: float, is_pressing: bool) -> None:
    answer = unjudged("memory-growth", measurements(**memory(left=left, of=9000 * GIB, early=early)))

    assert answer is not None
    assert answer.pressing is is_pressing
    assert answer.reason.code == ("grows-or-settles" if is_pressing else "growth-or-settling")


def test_contention_that_takes_a_tenth_leaves_no_training_healthy() -> None:
    m = measurements(machine={"threads": 16}, ledger=queued(8))

    assert diagnose(m).verdict.state == "undetermined"
    assert finding("thread-contention", m).claims == (WAITING,)


@pytest.mark.parametrize(("load", "claims"), [({}, (WAITING,)), (BUSY, ())], ids=["alone", "beside others"])
def test_too_many_threads_beside_others_claim_nothing(load: dict[str, Any], claims: tuple[Part, ...]) -> None:
    m = measurements(machine={"threads": 16}, ledger=queued(8), load=load)

    assert finding("thread-contention", m).claims == claims


@pytest.mark.parametrize(
    ("framework", "on", "remedies"),
    [
        ("torch", "cpu", ["FEWER_THREADS"]),
        ("jax", "cpu", ["FEWER_THREADS"]),
        ("tensorflow", "cpu", ["FEWER_THREADS", "INPUT_THREADS"]),
        ("tensorflow", "cuda", ["FEWER_THREADS", "LAUNCHING_THREADS", "INPUT_THREADS"]),
        ("keras", "cpu", ["FEWER_THREADS", "INPUT_THREADS"]),
    ],
)
def test_fewer_threads_are_said_in_the_words_of_who_computes(framework: str, on: str, remedies: list[str]) -> None:
    words, of_data = all_words()[framework], {} if framework in ("torch", "jax") else {"pipeline": slow_map()}
    m = measurements(machine={"threads": 16}, ledger=queued(8), words=words, device=on, input=of_data)

    assert [fix.text for fix in finding("thread-contention", m).fixes] == [words.advise(Remedy[each], threads=4) for each in remedies]
    assert "OMP_NUM_THREADS=4" not in "".join(fix.text for fix in finding("thread-contention", m).fixes) or framework == "torch"


def test_a_pool_of_which_nothing_is_said_has_a_thread_for_each_core() -> None:
    quota = {**QUOTA, "threads": None, "cores_now": 16}
    known, unknown = (
        finding("thread-contention", measurements(cores=16.0, machine={**quota, "cores_now": cores}, words=all_words()["jax"]))
        for cores in (16, 2)
    )

    assert [found.fixes[0].lever for found in (known, unknown)] == ["threads=2", None]


@pytest.mark.parametrize("cause", [{"threads": 4}, BOUND], ids=["as many threads as cores", "bound"])
def test_a_delay_that_others_may_have_caused_is_no_contention(cause: dict[str, Any]) -> None:
    assert answer_of("thread-contention", measurements(machine=cause, ledger=queued(3), load=BUSY)) is None


def test_what_was_not_measured_is_said_and_leaves_a_healthy_training_healthy() -> None:
    diagnosis = diagnose(measurements())

    assert diagnosis.verdict.state == "healthy"
    assert {"memory-growth", "memory-near-limit"} <= {row.rule for row in diagnosis.not_judged if row.advisory}


@pytest.mark.parametrize("rule", ["device-throttled", "shared-device", "low-device-use"])
def test_a_training_on_a_device_that_was_not_read_is_not_judged(rule: str) -> None:
    assert isinstance(answer_of(rule, measurements(device="cuda")), NotJudged)


def test_what_others_take_is_of_the_cores_of_all_ranks() -> None:
    # A second rank trains beside it: of the four cores that both may use, half are this one's.
    found = finding("foreign-load", measurements(load={"foreign_cores": 2.0, "cores": 4.0}, cores=2.0))

    assert values(found)["their share of the cores"] == pytest.approx(0.5)


def test_twice_as_many_threads_are_proposed() -> None:
    assert [fix.lever for fix in judged("idle-cores", measurements(**MANY)).finding.fixes] == ["threads=2"]


def test_idle_cores_are_advice_where_they_may_be_hardware_threads_of_busy_ones() -> None:
    advised, found = judged("idle-cores", measurements(**MANY)).finding, judged("idle-cores", measurements(**MANY, **PHYSICAL)).finding

    assert (advised.advisory, found.advisory) == (True, False)
    assert found.gain.predicted is None
    assert found.share_low == found.share > 0.9


def test_no_more_threads_are_proposed_than_there_are_physical_cores() -> None:
    three = {**MANY, **PHYSICAL, "machine": {"threads": 3, "idle_cores": 13.0, "ranks": 1, "tree_cores": 3.0}}
    assert [fix.lever for fix in judged("idle-cores", measurements(**three)).finding.fixes] == ["threads=6"]
    assert answer_of("idle-cores", measurements(**{**three, "machine": {"threads": 1, "idle_cores": 13.0, "ranks": 5}})) is None


def test_few_who_use_the_machine_beside_leave_its_cores_idle() -> None:
    found = judged(
        "idle-cores",
        measurements(
            **{**TWO, "trainer": {"facts": {"physical_cores": 2}}, "machine": {"threads": 1, "idle_cores": 0.6, "tree_cores": 1.0}}
        ),
    )

    assert values(found.finding)["cores idle"] > 0.9


def test_cores_that_others_keep_busy_leave_unsaid_whether_more_threads_gain() -> None:
    shared = {**MANY, **PHYSICAL, "machine": {"threads": 1, "idle_cores": 1.0}, "load": {"foreign_cores": 6.0}}
    answer = answer_of("idle-cores", measurements(**shared))

    assert isinstance(answer, NotJudged)
    assert (answer.reason.code, answer.lever, answer.advisory) == ("others-on-cores", "threads=2", True)
