"""The rules on causes of slow input: each fires on a training that has the cause, and is silent on one close to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from judged import answer_of, code_of, finding, judged, named, unjudged, values
from made_measurements import DATA, MS, fed, loop_fed, measurements, merged, per_step
from slowstep.analyses.batches.fetch_concurrency import FetchConcurrency
from slowstep.analyses.input.input_facts import Forms, InputFunction, Pass
from slowstep.analyses.python.calls import TimedFunction
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.evidence.input.input_causes import file_cost
from slowstep.diagnosis.evidence.input.input_side import InputSide, workers_needed
from slowstep.diagnosis.gain import REMOVED
from slowstep.findings import EvidenceCode, NotJudged
from slowstep.frameworks._known import all_words
from slowstep.parts import COLLECTION, Part, PartKind

Measured = dict[str, Any]


def timed(*rows: tuple[str, str | None, float, float]) -> Measured:
    """What timed calls of the making say: function, file, calls per sample, share of the making."""
    functions = [
        InputFunction(
            name=name,
            file=file,
            line=None if file is None else 30,
            calls_per_sample=calls,
            share=share,
            caller="load" if file is None else None,
            is_users=file == DATA,
        )
        for name, file, calls, share in rows
    ]
    return {"input": {"functions": tuple(sorted(functions, key=lambda each: -each.share))}}


def form(tensors: float = 2, size_bytes: float = 1e6, spare_bytes: float = 0.0, array_bytes: float = 0.0) -> Measured:
    made = Forms(tensors=tensors, size_bytes=size_bytes, spare_bytes=spare_bytes, types="float32", array_bytes=array_bytes)
    return {"input": {"forms": made}}


def transform(name: str, share: float) -> Measured:
    """One function of the user's holds so much of the making outside of collate."""
    return {"fetch_function": TimedFunction(name=name, file=DATA, line=40, share=share, path=("__getitem__", name))}


def passes(
    samples: float, count: int = 8, *, storage_bytes: float = 0.0, blocked_ms: float = 0.0, first: Measured | None = None
) -> Measured:
    """Passes over the data set, alike but for the first one where that is said: a sample takes half a millisecond, and is blocked."""
    like = {
        "samples": samples,
        "making_ns_per_sample": (0.5 + blocked_ms) * MS,
        "blocked_ns_per_sample": blocked_ms * MS,
        "storage_bytes_per_sample": storage_bytes,
    }
    return {"input": {"passes": (Pass(**{**like, **(first or {})}), *[Pass(**like)] * (count - 1))}}


def with_all(given: Measured, *more: Measured) -> Measured:
    for each in more:
        given = merged(given, each)
    return given


RECV = "method 'recv_into' of '_socket.socket' objects"
DECODE = "method 'decode' of 'ImagingDecoder' objects"
HTTP, ZIP, TAR = (f"/usr/lib/python3.11/{name}.py" for name in ("http/client", "zipfile", "tarfile"))
NUMPY = "/usr/lib/python3.11/site-packages/numpy/lib/_npyio_impl.py"
READ, OPEN = "method 'read' of '_io.BufferedReader'", "built-in method io.open"
MANY_FILES = timed(("assemble", DATA, 1, 0.9), (OPEN, None, 40, 0.3), (READ, None, 40, 0.1))
A_PAIR = timed(("load", DATA, 1, 0.9), (OPEN, None, 2, 0.25), (DECODE, None, 2, 0.1))
ZIPPED = timed(("load", DATA, 1, 0.7), ("ZipFile.__init__", ZIP, 1, 0.5), (OPEN, None, 1, 0.02))
# By tarfile.open(path).extractfile(name) of 2,000 members: opening itself is next to nothing, 99 % are the headers before the member.
TARRED = timed(("load", DATA, 1, 0.99), ("TarFile.__init__", TAR, 1, 0.006), ("TarFile._load", TAR, 1, 0.98))
# Opened once per worker: the walk comes with the first sample.
TAR_KEPT = timed(("load", DATA, 1, 0.9), ("TarFile.__init__", TAR, 1 / 64, 0.006), ("TarFile._load", TAR, 1 / 64, 0.5))
# lmdb 3.0: what opens it is a type, which is no function, so that what it calls is seen, and the end of it.
ENVIRONMENT = "/usr/lib/python3.11/site-packages/lmdb/_envid.py"
ENVIRONMENT_CLOSE = "method 'close' of 'Environment' objects"
REOPENED_LMDB = timed(
    ("load", DATA, 1, 0.9), ("connect", DATA, 1, 0.4), ("env_keys", ENVIRONMENT, 2, 0.2),
    ("env_keys.<locals>.<genexpr>", ENVIRONMENT, 6, 0.1), (ENVIRONMENT_CLOSE, None, 1, 0.12),
)  # fmt: skip
ARRAYS = timed(("load", DATA, 1, 0.7), ("ZipFile.__init__", ZIP, 1, 0.5), ("NpzFile.__init__", NUMPY, 1, 0.6))
BODY = timed(("fetch_bytes", DATA, 1, 0.8), (RECV, None, 9, 0.7), ("HTTPResponse.begin", HTTP, 1, 0.05))
LATENCY = timed(("fetch_bytes", DATA, 1, 0.8), (RECV, None, 9, 0.7), ("HTTPResponse.begin", HTTP, 1, 0.6))
SOCKETS = timed(("fetch", DATA, 1, 0.9), (OPEN, None, 9, 0.05), (READ, None, 9, 0.7), (RECV, None, 9, 0.69))
DECODES = timed(("__getitem__", DATA, 1, 0.9), (DECODE, None, 1, 0.7))
DECODES_LITTLE = timed(("__getitem__", DATA, 1, 0.9), (DECODE, None, 1, 0.2))
TOGETHER = {"input": {"fetch_concurrency": FetchConcurrency(slows=1.0, low=0.9, high=1.1)}}
APART = {"input": {"fetch_concurrency": FetchConcurrency(slows=0.0, low=-0.1, high=0.1)}}
SMALL_READS = {"input": {"read_calls_per_sample": 25.0, "read_bytes_per_sample": 6250.0}}
SEEN_AGAIN = {"input": {"dataset_length": 400}}


def slow_batches(workers: int = 2, cores: float = 2.0, cpu_ms: float = 70.5, queued_ms: float = 19.0, **more: Any) -> Measured:
    return fed(workers, cpu_ms=cpu_ms, queued_ms=queued_ms, cores=cores, **more)


# A worker and the training on two cores, each of which the other's work keeps waiting: one more worker would find none.
def shared_cores(spinning: float) -> Measured:
    return fed(1, cpu_ms=28.5, queued_ms=4.0, delay_ms=8.0, spinning_cores=spinning, cores=2.0)


FILES = fed(1, cpu_ms=40.5, cores=2.0)
NET = fed(2, cpu_ms=10.5, blocked_ms=60.0)
NO_CORE_LEFT = fed(2, cpu_ms=10.5, blocked_ms=60.0, foreign_cores=3.5)
STORED = with_all(fed(24, cpu_ms=10.5, blocked_ms=600.0, storage=True), passes(400, storage_bytes=60.0, blocked_ms=25.0))
HELPED = fed(2, cpu_ms=10.5, helped_ms=30.0, queued_ms=20.0, cores=2.0)
# What four workers and the training get of two cores: the queueing makes their times add up.
OVERSUBSCRIBED = fed(4, cpu_ms=70.5, helped_ms=150.0, queued_ms=250.0, cores=2.0)
FEW_HELPERS = with_all(fed(2, cpu_ms=70.5, helped_ms=26.0, queued_ms=25.0, cores=2.0), transform("whiten", 0.95))


def receiving(ms: float, **more: Any) -> Measured:
    return {"ledger": {Part("preprocess", PartKind.TRANSPORT): ms}, **more}


# What was measured, the stage, and a rule that is folded into the one that leads.
FIRING: dict[str, tuple[Measured, str, str | None]] = {
    "reopened-files": (with_all(FILES, MANY_FILES), "preprocess", None),
    "reopened-files that slow-transform sees too": (
        with_all(fed(1, cpu_ms=70.5, cores=2.0), MANY_FILES, transform("assemble", 0.9)),
        "preprocess",
        "slow-transform",
    ),
    "reopened-files of a tar file": (with_all(FILES, TARRED), "preprocess", None),
    "reopened-files of a container": (with_all(FILES, ZIPPED), "preprocess", None),
    "reopened-files of a container that is closed again": (with_all(FILES, REOPENED_LMDB), "preprocess", None),
    "network-input-capped": (with_all(NET, BODY, TOGETHER), "read", None),
    "network-input-capped by one limit or by one for each": (with_all(NET, BODY), "read", "too-few-workers"),
    "network-input-capped by a limit for each that no core is left to hide": (with_all(NO_CORE_LEFT, BODY, APART), "read", None),
    "too-few-workers beside a network that paces each connection": (with_all(NET, BODY, APART), "read", None),
    "preprocess-saturates-cpu": (slow_batches(), "preprocess", None),
    "preprocess-saturates-cpu with one worker where more find no core": (shared_cores(0.3), "preprocess", None),
    "preprocess-saturates-cpu on one core": (fed(0, cpu_ms=40.5, cores=1.0), "preprocess", None),
    "repeated-preprocessing": (with_all(slow_batches(), DECODES, SEEN_AGAIN, passes(400)), "preprocess", "preprocess-saturates-cpu"),
    "storage-wait": (STORED, "read", None),
    "storage-wait of small reads": (with_all(STORED, SMALL_READS), "read", "small-random-reads"),
    "batch-transport of many tensors": (receiving(12, **form(tensors=40)), "preprocess", None),
    "batch-transport of large batches": (receiving(12, **form(size_bytes=64e6)), "preprocess", None),
    "worker-thread-oversubscription": (HELPED, "preprocess", None),
    "worker-thread-oversubscription of one function": (with_all(OVERSUBSCRIBED, transform("whiten", 0.95)), "preprocess", "slow-transform"),
    "slow-transform of few helpers": (FEW_HELPERS, "preprocess", "worker-thread-oversubscription"),
}


def cold(**first: float) -> Measured:
    usual = {"storage_bytes_per_sample": 25_000.0, "making_ns_per_sample": 1.9 * MS, "blocked_ns_per_sample": 1.4 * MS}
    return passes(400, first={**usual, **first})


ADVICE: dict[str, Measured] = {
    "cold-cache": with_all(fed(1, cpu_ms=8.5), cold()),
    "host-widening": form(size_bytes=8e6, spare_bytes=6e6),
}

# The same with one fact changed: the rule named first must be silent.
CLOSE: dict[str, Measured] = {
    "reopened-files with a file and its label": with_all(FILES, A_PAIR),
    "reopened-files behind a training that does not wait": with_all(fed(1, cpu_ms=8.5), MANY_FILES),
    "reopened-files of a tar file that is kept open": with_all(FILES, TAR_KEPT),
    "reopened-files of numpy archives": with_all(FILES, ARRAYS),
    "reopened-files of sockets that are read like files": with_all(NET, SOCKETS),
    "network-input-capped by a pace of each connection": with_all(NET, BODY, APART),
    "network-input-capped by latency": with_all(NET, LATENCY),
    "network-input-capped without a wait": BODY,
    "network-input-capped where nothing was timed": NET,
    "preprocess-saturates-cpu with cores to spare": slow_batches(cores=16.0, queued_ms=0.0),
    "preprocess-saturates-cpu where workers sleep": slow_batches(workers=8, queued_ms=0.0, blocked_ms=150.0),
    "preprocess-saturates-cpu of the training thread on two cores": fed(0, cpu_ms=40.5, cores=2.0),
    "preprocess-saturates-cpu with one worker where more find cores": shared_cores(0.0),
    "preprocess-saturates-cpu with one worker on two cores": slow_batches(workers=1, cpu_ms=26.5),
    "repeated-preprocessing of random work": with_all(slow_batches(), DECODES_LITTLE, SEEN_AGAIN, passes(400)),
    "repeated-preprocessing in a first pass": with_all(slow_batches(), DECODES, SEEN_AGAIN, passes(400, count=1)),
    "repeated-preprocessing of other samples each pass": with_all(
        slow_batches(), DECODES, {"input": {"dataset_length": 100_000}}, passes(400)
    ),
    "repeated-preprocessing that workers would hide": with_all(slow_batches(cores=16.0), DECODES, SEEN_AGAIN, passes(400)),
    "storage-wait of something else": fed(24, cpu_ms=10.5, blocked_ms=600.0),
    "storage-wait of a first pass": with_all(STORED, passes(400, storage_bytes=10.0, first={"storage_bytes_per_sample": 60.0})),
    "small-random-reads in large pieces": with_all(STORED, {"input": {"read_calls_per_sample": 25.0, "read_bytes_per_sample": 6.25e6}}),
    "small-random-reads in few calls": with_all(STORED, {"input": {"read_calls_per_sample": 4.0, "read_bytes_per_sample": 100.0}}),
    "small-random-reads from memory": with_all(fed(24, cpu_ms=10.5, blocked_ms=600.0), SMALL_READS),
    "batch-transport of two tensors on a slow machine": receiving(12, **form()),
    "batch-transport at the floor": receiving(1.2, **form(tensors=40)),
    "worker-thread-oversubscription with cores to spare": fed(2, cpu_ms=10.5, helped_ms=30.0, queued_ms=20.0, cores=16.0),
    "worker-thread-oversubscription without helpers": fed(2, cpu_ms=70.5, helped_ms=5.0, queued_ms=30.0, cores=2.0),
    "cold-cache that stays cold": with_all(fed(1, cpu_ms=8.5), passes(400, storage_bytes=25_000.0, blocked_ms=1.4)),
    "cold-cache that workers hide": with_all(fed(2, cpu_ms=5.5), cold(making_ns_per_sample=0.8 * MS, blocked_ns_per_sample=0.3 * MS)),
    "cold-cache that cost nothing": with_all(fed(1, cpu_ms=17.5), cold(making_ns_per_sample=0.53 * MS, blocked_ns_per_sample=0.03 * MS)),
    "host-widening of real floats": form(size_bytes=8e6),
    "host-widening of small batches": form(size_bytes=4e5, spare_bytes=3e5),
}


@pytest.mark.parametrize("case", FIRING)
def test_a_cause_leads_the_findings(case):
    measured, stage, folded = FIRING[case]

    diagnosis = diagnose(measurements(**measured))

    found = diagnosis.findings[0]
    assert (found.rule, found.stage) == (case.split()[0], stage)
    assert folded is None or folded in found.also
    assert found.claims
    assert diagnosis.verdict.rule == found.rule, diagnosis.verdict.reason


@pytest.mark.parametrize("case", CLOSE)
def test_a_training_that_is_only_close_is_not_blamed(case):
    assert answer_of(case.split()[0], measurements(**CLOSE[case])) is None


@pytest.mark.parametrize("rule", ADVICE)
def test_advice_claims_nothing_and_leaves_the_verdict_alone(rule):
    diagnosis = diagnose(measurements(**ADVICE[rule]))

    found = diagnosis.findings[-1]
    assert (found.rule, found.claims, found.gain.predicted) == (rule, (), None)
    assert diagnosis.verdict.state == "healthy"


@pytest.mark.parametrize(
    ("case", "name", "value"),
    [
        ("reopened-files", "files opened", 40),
        ("reopened-files", "function", "assemble"),
        ("reopened-files of a container", "opening and reading them", 0.5),
        ("network-input-capped", "receiving", 0.7),
        ("network-input-capped", "held up by each other", 1.0),
        ("preprocess-saturates-cpu", "preprocessing", 70.5),
        ("repeated-preprocessing", "its share", 0.7),
        ("repeated-preprocessing", "passes begun", 8),
        ("storage-wait", "fix saves per step", pytest.approx(610.5 / 24 - 19.5, rel=0.01)),
        ("batch-transport of many tensors", "tensors per batch", 40),
        ("batch-transport of large batches", "size of a batch", 64),
        ("worker-thread-oversubscription", "busy threads per worker", pytest.approx(1 + 30 / 40.5)),
    ],
)
def test_a_cause_shows_what_was_measured(case, name, value):
    assert values(finding(case.split()[0], measurements(**FIRING[case][0])))[name] == value


@pytest.mark.parametrize("case", FIRING)
def test_what_the_fix_saves_is_what_the_gain_says(case):
    """Where the workers' own need then limits the step, less than the waits that are gone."""
    m = measurements(**FIRING[case][0])
    found = finding(case.split()[0], m)

    step_ms = float(m.step_ns.mean()) / MS
    assert values(found)[REMOVED] == pytest.approx(step_ms * (1 - 1 / found.gain.predicted))


@pytest.mark.parametrize(("opened", "fixes"), [(1, 3), (1 / 64, 2)], ids=["for each sample", "once per worker"])
def test_an_archive_that_each_sample_opens_is_to_be_loaded_once_where_it_is_the_same(opened, fixes):
    calls = timed(("load", DATA, 1, 0.9), ("NpzFile.__init__", NUMPY, opened, 0.06), ("NpzFile.__getitem__", NUMPY, 1, 0.8))

    assert len(finding("slow-transform", measurements(**with_all(FEW_HELPERS, calls))).fixes) == fixes


@pytest.mark.parametrize(("size_bytes", "code"), [(64e6, "form-not-recorded"), (1e6, None)], ids=["large", "small"])
def test_a_batch_of_unknown_form_that_takes_long_to_receive_is_not_judged_where_it_may_be_large(size_bytes, code):
    assert code_of("batch-transport", measurements(**receiving(12, demand={"batch_bytes": size_bytes}))) == code


def sends_state(every: int | None = 1, between_ms: float = 9.0, workers: int = 1) -> Measured:
    """Workers that send their state with some batches, and take so long for what is no making of them."""
    own: Measured = {"loader": {"num_workers": workers, "snapshot_every": every}, "demand": {"between_batches_ns": between_ms * MS}}
    return {**receiving(12), "input": own}


def test_a_state_that_comes_with_each_batch_is_why_receiving_takes_long():
    m = measurements(**sends_state())

    first, fix = diagnose(m).findings[0], finding("batch-transport", m).fixes[0]
    assert (first.rule, first.also) == ("batch-transport", ("needless-workers",))
    assert "StatefulDataLoader(..., snapshot_every_n_steps=" in fix.text
    step_ms = float(m.step_ns.mean()) / MS
    assert first.gain.predicted == pytest.approx(step_ms / (step_ms - 11))


def test_garbage_that_is_collected_while_a_state_is_received_goes_with_it():
    in_bursts = np.zeros(measurements().steps.count)
    in_bursts[::20] = 120.0
    collected: Measured = {"ledger": {COLLECTION: in_bursts}, "garbage": {"in_waits_ns": 4.0 * MS}}

    alone, both = (finding("batch-transport", measurements(**made)) for made in (sends_state(), with_all(sends_state(), collected)))

    assert values(both)["collecting garbage meanwhile"] == pytest.approx(4.0)
    assert both.gain.predicted > alone.gain.predicted


def test_a_state_is_not_blamed_for_what_large_batches_take():
    found = finding("batch-transport", measurements(**with_all(sends_state(), form(size_bytes=64e6))))

    assert "size of a batch" in values(found)


@pytest.mark.parametrize(
    "measured",
    [sends_state(None), sends_state(100), sends_state(between_ms=0.3), sends_state(workers=0)],
    ids=["no state", "seldom", "a small state", "no workers"],
)
def test_a_state_that_takes_no_time_or_is_not_sent_is_not_blamed(measured):
    assert named(measurements(**measured))[:1] != ["batch-transport"]


def test_of_full_cores_half_the_work_gains_what_the_cores_then_allow():
    found = judged("preprocess-saturates-cpu", measurements(**slow_batches()))

    # Two workers and the training thread of 19 ms on two cores: half of 70.5 is 35.25 a step.
    assert found.finding.gain.predicted == pytest.approx((70.5 + 19) / 2 / ((35.25 + 19) / 2), rel=0.05)
    assert found.finding.gain.low < found.finding.gain.predicted < found.finding.gain.high


def test_at_worse_less_than_all_of_a_containers_opening_is_spared():
    counterfactual = judged("reopened-files", measurements(**FIRING["reopened-files of a container"][0])).counterfactual

    assert counterfactual.pessimistic.concurrent_ns > counterfactual.expected.concurrent_ns > counterfactual.optimistic.concurrent_ns


def test_waiting_for_a_core_goes_with_reopened_files_as_much_as_their_making():
    found = {ms: finding("reopened-files", measurements(**with_all(fed(1, cpu_ms=40.5, cores=2.0, delay_ms=ms), ZIPPED))) for ms in (0, 10)}

    # The waits for batches hide what the training waits for cores: a step is no longer by it, and what is left of it is shorter.
    left_ms = {ms: 40.5 / each.gain.predicted for ms, each in found.items()}
    assert found[10].gain.predicted < found[0].gain.predicted
    assert left_ms[10] - left_ms[0] < 0.5 * 10


@pytest.mark.parametrize("loader", [True, False], ids=["loader", "no loader"])
@pytest.mark.parametrize(
    ("cores", "spinning", "threads", "known"), [(2, 0.9, 2, False), (2, 0.9, 1, True), (2, 0.2, 2, True), (4, 0.9, 4, True)]
)
def test_what_a_worker_gains_is_not_known_where_the_trainings_threads_leave_it_no_core(cores, spinning, threads, known, loader):
    serial: dict[str, Any] = {"cores": float(cores), "spinning_cores": spinning, "machine": {"threads": threads}}
    m = measurements(**(fed(0, cpu_ms=13.0, **serial) if loader else loop_fed(13.0, **serial)))

    assert (finding("serial-loader", m).gain.predicted is not None) is known
    verdict = diagnose(m).verdict
    assert (verdict.state, verdict.rule) == (("bottleneck", "serial-loader") if known else ("undetermined", None))


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_input_that_only_the_script_reads_is_made_beside_the_training_and_no_lever_tries_it(framework):
    own: dict[str, Any] = {"input": {"loader": {"is_marked": True, "dataset": "generator"}}, "words": all_words()[framework]}
    m = measurements(**merged(fed(0, cpu_ms=13.0), own))

    serial = finding("serial-loader", m)

    aside = "make the batches in a background thread or process"
    by_torch = f"{aside}, or by a Dataset that is read by DataLoader(..., num_workers=1)"
    assert serial.fixes[0].text == (by_torch if framework == "torch" else aside)
    assert "num_workers" not in serial.title + "".join(row.name for row in serial.evidence)
    assert not any(fix.lever or fix.bounded_by or fix.lever_in_doubt for fix in serial.fixes)
    assert diagnose(m).deciding_levers is None


@pytest.mark.parametrize(("framework", "name"), [("torch", "num_workers"), ("transformers", "dataloader_num_workers")])
def test_a_number_of_workers_is_called_as_the_script_sets_it(framework, name):
    serial = finding("serial-loader", measurements(**merged(fed(0, cpu_ms=13.0), {"words": all_words()[framework]})))

    assert [(row.name, row.value) for row in serial.evidence if row.code is EvidenceCode.SETTING] == [(name, 0)]
    assert f"({name}=0)" in serial.title


# One worker of Keras' is a thread: a number of workers says nothing there.
@pytest.mark.parametrize(
    ("framework", "advice"),
    [("tensorflow", "a tf.data pipeline"), ("keras", "keras.utils.PyDataset(..., use_multiprocessing=True, workers=1")],
)
def test_a_loader_whose_framework_makes_no_lever_is_told_what_its_users_write(framework, advice):
    own: dict[str, Any] = {"input": {"loader": {"framework": framework, "dataset": "PrefetchDataset"}}, "words": all_words()[framework]}
    m = measurements(**merged(fed(0, cpu_ms=13.0), own))

    serial = finding("serial-loader", m)

    fix = serial.fixes[0]
    assert fix.text.startswith(advice)
    assert "num_workers" not in {row.name for row in serial.evidence}
    assert "num_workers" not in serial.title
    assert (fix.lever, fix.bounded_by, fix.lever_in_doubt) == (None, None, None)
    assert diagnose(m).deciding_levers is None


def test_a_loop_in_jax_is_not_told_of_torchs_loader():
    m = measurements(**merged(loop_fed(13.0), {"words": all_words()["jax"]}))

    assert "background thread or process" in finding("serial-loader", m).fixes[0].text
    assert "DataLoader" not in finding("serial-loader", m).fixes[0].text


@pytest.mark.parametrize(
    ("making_ms", "loader", "found"),
    [(0.9, True, False), (2.0, True, True), (1.0, False, False), (2.0, False, True)],
    ids=["receiving takes as long", "less than making", "a loop's takes as long", "less than a loop's making"],
)
def test_no_worker_is_advised_that_finds_no_core_and_would_gain_nothing_on_one(making_ms, loader, found):
    short: dict[str, Any] = {"cores": 2.0, "spinning_cores": 0.9, "body_ms": 2.7}
    m = measurements(**(fed(0, cpu_ms=making_ms, **short) if loader else loop_fed(making_ms, **short)))

    assert ("serial-loader" in named(m)) is found


@pytest.mark.parametrize(("now", "cpu_ms", "workers"), [(0, 10, 6), (0, 30, 2), (0, 45, 2), (1, 30, 4), (1, 30.3, 4), (1, 45, 2)])
def test_as_many_workers_are_proposed_as_compute_at_once(now, cpu_ms, workers):
    # Blocked for most of their time; computing; beside threads that spin; beside the recorder's own readings; and with a library's threads.
    nothing = np.zeros(10)
    side = InputSide(
        removable_ns=nothing,
        filling_ns=nothing,
        startup_ns=0,
        rest_ns=2e6,
        queued_ns=nothing,
        own_queued_ns=nothing,
        others_cpu_ns=0,
        wall_ns=30e6,
        cpu_ns=cpu_ms * 1e6,
        trainer_cpu_ns=2e6,
        cores=2 if now == 0 else 4,
    )

    assert workers_needed(side, now) == workers


def test_full_cores_name_the_innermost_function_that_holds_most_of_the_making():
    nested = timed(("__iter__", DATA, 1, 0.98), ("parse", DATA, 1, 0.9), ("scale", DATA, 1, 0.2), (DECODE, None, 1, 0.6))

    evidence = finding("preprocess-saturates-cpu", measurements(**with_all(slow_batches(), nested))).evidence

    assert [row.name for row in evidence if row.unit == "share of making a batch"] == ["parse", "scale"]


@pytest.mark.parametrize(
    ("measured", "is_told"),
    [(NET, True), (with_all(NO_CORE_LEFT, APART), True), (with_all(NET, TOGETHER), False)],
    ids=["not known", "each by itself", "all together"],
)
def test_the_experiment_with_more_workers_is_named_unless_all_connections_share_a_limit(measured, is_told):
    fixes = finding("network-input-capped", measurements(**with_all(measured, BODY))).fixes

    assert any((fix.lever or "").startswith("workers=") for fix in fixes) is is_told


def test_of_workers_that_mostly_wait_for_cores_beside_others_half_the_work_halves_the_making_and_no_more():
    # Of two workers' 640 ms beside many others 100 compute: on cores of their own they would take 50 ms a step, and 25 with half the work.
    kept = slow_batches(cpu_ms=100.0, queued_ms=540.0, foreign_cores=1.8)

    gain = finding("preprocess-saturates-cpu", measurements(**kept)).gain

    assert gain.predicted == pytest.approx(2.0, rel=0.05)


LOCKED = fed(2, cpu_ms=4.5, blocked_ms=60.0)


def test_workers_that_wait_for_one_limit_are_not_told_to_become_more():
    m = measurements(**with_all(LOCKED, TOGETHER))

    assert code_of("too-few-workers", m) == "workers-share-a-limit"
    assert diagnose(m).verdict.state == "undetermined"


# Of 120 ms for a batch three quarters are waits for a core: all four workers may use only one.
BOUND = fed(4, cpu_ms=30.0, queued_ms=90.0, machine={"workers_cores": 1})


def test_workers_that_share_fewer_cores_than_they_are_are_not_told_to_become_more():
    answer = answer_of("too-few-workers", measurements(**BOUND))

    assert isinstance(answer, NotJudged)
    assert answer.reason.code == "workers-bound"
    assert answer.change is not None
    assert diagnose(measurements(**BOUND)).verdict.state != "healthy"


@pytest.mark.parametrize("cores", [None, 4, 8])
def test_workers_that_may_use_all_cores_are_judged_as_before(cores):
    m = measurements(**with_all(BOUND, {"machine": {"workers_cores": cores}}))

    assert code_of("too-few-workers", m) != "workers-bound"


def test_workers_that_wait_for_a_disk_and_share_a_core_are_told_to_become_more_and_no_more_than_its_worth():
    waits = fed(4, cpu_ms=10.0, blocked_ms=150.0, machine={"workers_cores": 1})

    answer, free = (
        judged("too-few-workers", measurements(**with_all(waits, {"machine": {"workers_cores": cores}}))) for cores in (1, None)
    )

    assert answer.counterfactual.expected.concurrent_ns >= 10 * MS
    assert answer.finding.gain.predicted <= free.finding.gain.predicted


@pytest.mark.parametrize("inherited", [None, 1])
def test_workers_of_a_thread_that_is_bound_would_inherit_its_cores(inherited):
    m = measurements(**fed(0, cpu_ms=40.0, machine={"inherited_cores": inherited}))

    least = judged("serial-loader", m).counterfactual.expected.concurrent_ns

    assert (least >= 40 * MS) is (inherited == 1)


@pytest.mark.parametrize(
    ("found", "expected"),
    [(None, 1.0), ((0.0, -0.1, 0.1), 1.0), ((0.3, 0.2, 0.4), 2**0.3), ((0.3, -0.1, 0.6), 1.0)],
    ids=["not known", "each by itself", "a little", "perhaps"],
)
def test_more_workers_are_expected_to_hold_each_other_up_as_those_that_are_there(found, expected):
    slowed = None if found is None else FetchConcurrency(slows=found[0], low=found[1], high=found[2])
    alone = judged("too-few-workers", measurements(**LOCKED))

    answer = judged("too-few-workers", measurements(**with_all(LOCKED, {"input": {"fetch_concurrency": slowed}})))

    workers = int(answer.finding.fixes[0].lever.removeprefix("workers="))
    blocked = alone.counterfactual.expected.concurrent_ns * expected ** (np.log2(workers / 2))
    assert answer.counterfactual.expected.concurrent_ns == pytest.approx(blocked, rel=0.1)
    assert answer.finding.gain.low <= alone.finding.gain.low + 1e-9
    assert (answer.counterfactual.assumes == alone.counterfactual.assumes) == (expected == 1.0)


def test_arrays_that_are_pickled_are_told_to_be_tensors():
    pickled, shared = (
        finding("batch-transport", measurements(**receiving(30, **form(size_bytes=64e6, array_bytes=arrays)))) for arrays in (64e6, 0.0)
    )

    assert pickled.fixes != shared.fixes


@pytest.mark.parametrize(
    ("measured", "code"),
    [
        ({"workers": 0, "device": "cuda"}, "own-batches-not-seen"),
        ({"workers": 0}, None),
        ({"device": "cuda"}, "no-batch-seen"),
        ({"device": "cuda", **ADVICE["host-widening"]}, None),
    ],
    ids=["no workers, a device", "no workers, no device", "no batch was seen", "a batch was seen"],
)
def test_whether_batches_are_wider_than_their_values_is_not_judged_where_none_was_looked_at(measured, code):
    answer = unjudged("host-widening", measurements(**measured))

    assert (None if answer is None else answer.reason.code) == code
    assert answer is None or answer.advisory


@pytest.mark.parametrize(("later_ms", "said"), [(0.5, "took 3.8 times as long"), (4e-5, "took next to none of its time")])
def test_a_first_pass_is_held_against_the_next_ones_by_a_factor_unless_they_take_next_to_nothing(later_ms, said):
    measured = with_all(fed(1, cpu_ms=8.5), cold())
    first, *others = measured["input"]["passes"]
    measured["input"]["passes"] = (first, *(replace(each, making_ns_per_sample=later_ms * MS) for each in others))

    (found,) = [finding for finding in diagnose(measurements(**measured)).findings if finding.rule == "cold-cache"]

    assert said in found.title
    assert found.evidence[2].value == 1.4


def test_samples_of_tensors_that_no_worker_makes_sooner_may_be_taken_in_whole_batches():
    short = fed(0, cpu_ms=0.9, cores=2.0, spinning_cores=0.9, body_ms=2.7)
    tensors, other = (diagnose(measurements(**merged(short, {"loader": {"dataset": name}}))) for name in ("TensorDataset", "MaskFolder"))

    assert {(found.verdict.state, found.verdict.reason.code) for found in (tensors, other)} == {("undetermined", "no-fix-known")}
    assert tensors.deciding_levers == other.deciding_levers == "mock-loader"
    # What to change is said of tensors alone.
    assert tensors.verdict.reason != other.verdict.reason


def test_the_ledger_of_a_training_that_waits_is_as_long_as_its_steps():
    m = measurements(**slow_batches())

    assert m.ledger.ns.sum(axis=0) == pytest.approx(m.step_ns)
    assert m.step_ns == pytest.approx(per_step((70.5 + 19.0) / 2), rel=1e-6)


def test_what_closes_a_container_for_each_sample_costs_with_what_opens_it():
    cost = file_cost(measurements(**with_all(FILES, REOPENED_LMDB)))

    assert cost is not None
    assert cost.container is not None
    assert (cost.container.name, cost.share, cost.container.calls_per_sample) == ("lmdb.open", pytest.approx(0.32), 1)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("rule", "measured"), [("worker-thread-oversubscription", HELPED), ("cold-cache", with_all(fed(1, cpu_ms=8.5), cold()))]
)
def test_what_holds_most_of_a_samples_making_is_named_beside_threads_and_caches(rule, measured, known):
    m = measurements(**(measured if known else with_all(measured, {"input": {"fetch_function": None}})))

    named_there = values(finding(rule, m)).get("most of making a sample in")

    assert named_there == ("__getitem__" if known else None)
