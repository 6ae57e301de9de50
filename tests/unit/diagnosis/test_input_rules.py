"""The rules on causes of slow input: each fires on a training that has the cause, and is silent on one close to it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from judged_recordings import named, report_of
from made_recordings import DATA, Training, make_recording
from slowstep.analyses.made_at_once import MadeAtOnce
from slowstep.analyses.measurements import measure
from slowstep.diagnosis.input_side import Side, workers_needed
from slowstep.diagnosis.rules import host_widening, too_few_workers
from slowstep.findings import NotJudged
from slowstep.sources.recording import SOURCE

Report = dict[str, Any]
SAMPLES, WALL_MS = 32, 100


def timed(*rows: tuple[str, str | None, float, float]) -> dict[str, Any]:
    """What the timed built-in calls of two batches say: function, file, calls per sample, share of the making."""
    return {
        "kind": "builtins",
        "of": "fetch",
        "stretches": 2,
        "samples": SAMPLES,
        "wall_ns": WALL_MS * 1_000_000,
        "rows": [
            {
                "function": name,
                "file": file,
                "line": None if file is None else 30,
                "calls": int(calls * SAMPLES),
                "total_ns": int(share * WALL_MS * 1_000_000),
                "callers": [] if file is not None else [[DATA, "load", 30, 1, 1]],
            }
            for name, file, calls, share in rows
        ],
    }


def form(tensors: int = 2, size_bytes: int = 1_000_000, spare_bytes: int = 0) -> dict[str, Any]:
    return {"kind": "batch", "tensors": tensors, "bytes": size_bytes, "spare_bytes": spare_bytes, "types": {"float32": size_bytes}}


RECV = "method 'recv_into' of '_socket.socket' objects"
DECODE = "method 'decode' of 'ImagingDecoder' objects"
HTTP = "/usr/lib/python3.11/http/client.py"
ZIP = "/usr/lib/python3.11/zipfile.py"
READ = "method 'read' of '_io.BufferedReader'"
MANY_FILES = timed(("assemble", DATA, 1, 0.9), ("built-in method io.open", None, 40, 0.3), (READ, None, 40, 0.1))
A_PAIR = timed(("load", DATA, 1, 0.9), ("built-in method io.open", None, 2, 0.25), (DECODE, None, 2, 0.1))
ZIPPED = timed(("load", DATA, 1, 0.7), ("ZipFile.__init__", ZIP, 1, 0.5), ("built-in method io.open", None, 1, 0.02))
TAR = "/usr/lib/python3.11/tarfile.py"
# By tarfile.open(path).extractfile(name) of 2,000 members: opening itself is next to nothing, 99 % are the headers before the member.
TARRED = timed(("load", DATA, 1, 0.99), ("TarFile.__init__", TAR, 1, 0.006), ("TarFile._load", TAR, 1, 0.98))
# Opened once per worker: the walk comes with the first sample.
TAR_KEPT = timed(("load", DATA, 1, 0.9), ("TarFile.__init__", TAR, 1 / 64, 0.006), ("TarFile._load", TAR, 1 / 64, 0.5))
ARRAYS = timed(
    ("load", DATA, 1, 0.7), ("ZipFile.__init__", ZIP, 1, 0.5), ("NpzFile.__init__", "/usr/lib/python3.11/site-packages/numpy/n.py", 1, 0.6)
)
BODY = timed(("fetch_bytes", DATA, 1, 0.8), (RECV, None, 9, 0.7), ("HTTPResponse.begin", HTTP, 1, 0.05))
LATENCY = timed(("fetch_bytes", DATA, 1, 0.8), (RECV, None, 9, 0.7), ("HTTPResponse.begin", HTTP, 1, 0.6))
SOCKETS = timed(("fetch", DATA, 1, 0.9), ("built-in method io.open", None, 9, 0.05), (READ, None, 9, 0.7), (RECV, None, 9, 0.69))
DECODES = timed(("__getitem__", DATA, 1, 0.9), (DECODE, None, 1, 0.7))
DECODES_LITTLE = timed(("__getitem__", DATA, 1, 0.9), (DECODE, None, 1, 0.2))

# What two workers and the training get of two cores: the queueing makes their times add up.
OVERSUBSCRIBED: dict[str, Any] = {"workers": 4, "getitem_ms": 70, "other_ms": 150, "queue_ms": 250, "cores": 2}
SLOW_BATCHES: dict[str, Any] = {"workers": 2, "getitem_ms": 70, "queue_ms": 19, "cores": 2, "transform": ("augment", 0.3)}
# A worker and the training on two cores, each of which the other's work keeps waiting: one more worker would find none.
SHARED_CORES: dict[str, Any] = {
    "workers": 1,
    "getitem_ms": 28,
    "queue_ms": 4,
    "delay_ms": 8,
    "helping_cores": 0.3,
    "cores": 2,
    "transform": ("augment", 0.3),
}
ALONE: dict[str, Any] = {"workers": 0, "getitem_ms": 40}
FILES: dict[str, Any] = {"getitem_ms": 40, "cores": 2}
NET: dict[str, Any] = {"workers": 2, "getitem_ms": 10, "blocked_ms": 60, "cores": 4}
STORED: dict[str, Any] = {"workers": 16, "getitem_ms": 10, "blocked_ms": 400, "storage": True, "cores": 4}

SMALL_READS = STORED | {"reads": (100_000, 400)}

# The training, and what its report must say.
FIRING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "reopened-files": (FILES | {"producer_lines": (MANY_FILES,)}, {"stage": "preprocess", "in title": "assemble"}),
    "reopened-files that slow-transform sees too": (
        FILES | {"getitem_ms": 70, "producer_lines": (MANY_FILES,), "transform": ("assemble", 0.9)},
        {"stage": "preprocess", "in title": "assemble", "also": "slow-transform"},
    ),
    "reopened-files of a tar file": (FILES | {"producer_lines": (TARRED,)}, {"stage": "preprocess", "in title": "TarFile._load"}),
    "reopened-files of a container": (FILES | {"producer_lines": (ZIPPED,)}, {"stage": "preprocess", "in title": "ZipFile"}),
    "network-input-capped": (
        NET | {"producer_lines": (BODY,), "blocked_together": True},
        {"stage": "read", "in title": "of the time to make a batch on receiving data: the network's rate is the limit, not the "
                                      "number of workers"},
    ),
    "network-input-capped by one limit or by one for each": (
        NET | {"producer_lines": (BODY,), "epoch_steps": None},
        {"stage": "read", "in title": "the rate of the network, or of each connection, is the limit", "also": "too-few-workers"},
    ),
    "network-input-capped by a limit for each that no core is left to hide": (
        NET | {"producer_lines": (BODY,), "foreign_cores": 3.5},
        {"stage": "read", "in title": "the rate of each connection is the limit"},
    ),
    "too-few-workers beside a network that paces each connection": (
        NET | {"producer_lines": (BODY,)},
        {"stage": "read", "in title": "2 workers cannot keep up"},
    ),
    "preprocess-saturates-cpu": (SLOW_BATCHES, {"stage": "preprocess", "in title": "2 cores"}),
    "preprocess-saturates-cpu with one worker where more find no core": (SHARED_CORES, {"stage": "preprocess", "in title": "2 cores"}),
    "preprocess-saturates-cpu on one core": (ALONE | {"cores": 1}, {"stage": "preprocess", "in title": "the only core is full"}),
    "repeated-preprocessing": (
        SLOW_BATCHES | {"producer_lines": (DECODES,), "epoch_steps": 25, "dataset_length": 400, "persistent": True},
        {"stage": "preprocess", "in title": "ImagingDecoder", "also": "preprocess-saturates-cpu"},
    ),
    "storage-wait": (STORED, {"stage": "read", "in title": "storage"}),
    "storage-wait of small reads": (SMALL_READS, {"stage": "read", "in title": "storage", "also": "small-random-reads"}),
    "batch-transport of many tensors": (
        {"receive_ms": 12, "producer_lines": (form(tensors=40),)},
        {"stage": "preprocess", "in title": "40 tensors"},
    ),
    "batch-transport of large batches": (
        {"receive_ms": 12, "producer_lines": (form(size_bytes=64_000_000),)},
        {"stage": "preprocess", "in title": "64 MB"},
    ),
    "worker-thread-oversubscription": (
        {"workers": 2, "getitem_ms": 10, "other_ms": 30, "queue_ms": 20, "cores": 2},
        {"stage": "preprocess", "in title": "busy threads"},
    ),
    "worker-thread-oversubscription of one function": (
        OVERSUBSCRIBED | {"transform": ("whiten", 0.95)},
        {"stage": "preprocess", "in title": "busy threads", "also": "slow-transform"},
    ),
    "slow-transform of few helpers": (
        {"workers": 2, "getitem_ms": 70, "queue_ms": 25, "other_ms": 26, "cores": 2, "transform": ("whiten", 0.95)},
        {"stage": "preprocess", "in title": "whiten", "also": "worker-thread-oversubscription"},
    ),
}  # fmt: skip

ADVICE: dict[str, dict[str, Any]] = {
    "cold-cache": {"workers": 1, "getitem_ms": 8, "blocked_ms": 22, "storage": True, "storage_epochs": 1, "reads": (400_000, 32)},
    "host-widening": {"producer_lines": (form(size_bytes=8_000_000, spare_bytes=6_000_000),)},
}

# The same with one fact changed: the rule named first must be silent.
CLOSE: dict[str, dict[str, Any]] = {
    "reopened-files with a file and its label": FILES | {"producer_lines": (A_PAIR,)},
    "reopened-files behind a training that does not wait": {"getitem_ms": 8, "producer_lines": (MANY_FILES,)},
    "reopened-files of a tar file that is kept open": FILES | {"producer_lines": (TAR_KEPT,)},
    "reopened-files of numpy archives": FILES | {"producer_lines": (ARRAYS,)},
    "reopened-files of sockets that are read like files": NET | {"producer_lines": (SOCKETS,)},
    "network-input-capped by a pace of each connection": NET | {"producer_lines": (BODY,)},
    "network-input-capped by latency": NET | {"producer_lines": (LATENCY,)},
    "network-input-capped without a wait": {"producer_lines": (BODY,)},
    "network-input-capped where nothing was timed": NET,
    "preprocess-saturates-cpu with cores to spare": SLOW_BATCHES | {"queue_ms": 0, "cores": 16},
    "preprocess-saturates-cpu where workers sleep": SLOW_BATCHES | {"getitem_ms": 10, "blocked_ms": 90},
    "preprocess-saturates-cpu of the training thread on two cores": ALONE | {"cores": 2},
    "preprocess-saturates-cpu with one worker where more find cores": SHARED_CORES | {"helping_cores": 0.0},
    "preprocess-saturates-cpu with one worker on two cores": SLOW_BATCHES | {"workers": 1, "getitem_ms": 26},
    "repeated-preprocessing of random work": SLOW_BATCHES | {"producer_lines": (DECODES_LITTLE,), "epoch_steps": 25, "dataset_length": 400},
    "repeated-preprocessing in a first pass": SLOW_BATCHES | {"producer_lines": (DECODES,), "epoch_steps": None, "dataset_length": 4800},
    "repeated-preprocessing of other samples each pass": SLOW_BATCHES
    | {"producer_lines": (DECODES,), "epoch_steps": 25, "dataset_length": 100_000},
    "repeated-preprocessing that workers would hide": SLOW_BATCHES
    | {"producer_lines": (DECODES,), "epoch_steps": 25, "dataset_length": 400, "cores": 16},
    "storage-wait of something else": STORED | {"storage": False},
    "storage-wait of a first pass": STORED | {"storage_epochs": 1, "blocked_ms": 900, "epoch_steps": 100, "persistent": True},
    "small-random-reads in large pieces": STORED | {"reads": (100_000_000, 400)},
    "small-random-reads from memory": STORED | {"reads": (100_000, 400), "storage": False},
    "batch-transport of two tensors on a slow machine": {"receive_ms": 12, "producer_lines": (form(),)},
    "batch-transport at the floor": {"receive_ms": 1.2, "producer_lines": (form(tensors=40),)},
    "worker-thread-oversubscription with cores to spare": {"workers": 2, "getitem_ms": 10, "other_ms": 30, "queue_ms": 20, "cores": 16},
    "worker-thread-oversubscription without helpers": {"workers": 2, "getitem_ms": 70, "other_ms": 5, "cores": 2},
    "cold-cache that stays cold": {"getitem_ms": 8, "blocked_ms": 12, "storage": True, "reads": (400_000, 32)},
    "cold-cache that workers hide": {"getitem_ms": 5, "blocked_ms": 5, "storage": True, "storage_epochs": 1, "reads": (400_000, 32)},
    "cold-cache that cost nothing": {"getitem_ms": 8, "blocked_ms": 0.5, "storage": True, "storage_epochs": 1, "reads": (400_000, 32)},
    "host-widening of real floats": {"producer_lines": (form(size_bytes=8_000_000),)},
    "host-widening of small batches": {"producer_lines": (form(size_bytes=400_000, spare_bytes=300_000),)},
}  # fmt: skip


@pytest.mark.parametrize("case", FIRING)
def test_a_cause_that_was_made_leads_the_report(tmp_path, case):
    changes, expected = FIRING[case]

    report = report_of(tmp_path, changes)

    finding = report["findings"][0]
    assert (finding["rule"], finding["stage"]) == (case.split()[0], expected["stage"])
    assert expected["in title"] in finding["title"]
    assert expected.get("also", "") in ("", *finding["also"])
    assert report["verdict"]["rule"] == finding["rule"], report["verdict"]["summary"]


@pytest.mark.parametrize(("opened", "is_said"), [(1, True), (1 / 64, False)], ids=["for each sample", "once per worker"])
def test_an_archive_that_each_sample_opens_is_to_be_loaded_once_where_it_is_the_same(tmp_path, opened, is_said):
    archive = "/usr/lib/python3.11/site-packages/numpy/lib/_npyio_impl.py"
    calls = timed(("load", DATA, 1, 0.9), ("NpzFile.__init__", archive, opened, 0.06), ("NpzFile.__getitem__", archive, 1, 0.8))

    changes, _ = FIRING["slow-transform of few helpers"]
    found = report_of(tmp_path, {**changes, "producer_lines": (calls,)})

    assert found["findings"][0]["rule"] == "slow-transform"
    texts = [fix["text"] for fix in found["findings"][0]["fixes"]]
    assert texts[1].startswith("where np.load opens the same archive for every sample") is is_said


def test_workers_threads_of_torch_are_to_be_one_as_well(tmp_path):
    changes, _ = FIRING["worker-thread-oversubscription"]

    assert "torch.set_num_threads(1)" in report_of(tmp_path, changes)["findings"][0]["fixes"][0]["text"]


@pytest.mark.parametrize("rule", ADVICE)
def test_advice_is_listed_and_leaves_the_verdict_alone(tmp_path, rule):
    report = report_of(tmp_path, ADVICE[rule])

    finding = report["findings"][-1]
    assert (finding["rule"], finding["claims"], finding["gain"]["predicted"]) == (rule, [], None)
    assert report["verdict"]["rule"] != rule


@pytest.mark.parametrize("case", CLOSE)
def test_a_training_that_is_only_close_is_not_blamed(tmp_path, case):
    rule = case.split()[0]

    report = report_of(tmp_path, CLOSE[case])

    assert rule not in [word for finding in report["findings"] for word in (finding["rule"], *finding["also"])]
    assert rule not in [row["rule"] for row in report["not_judged"]]


def test_a_batch_of_unknown_form_that_takes_long_to_receive_is_not_judged(tmp_path):
    report = report_of(tmp_path, {"receive_ms": 12, "batch_bytes": 64_000_000})

    assert "batch-transport" in [row["rule"] for row in report["not_judged"]]


def test_a_saturated_training_gains_what_halving_the_preprocessing_really_gains(tmp_path):
    before = report_of(tmp_path / "before", SLOW_BATCHES)
    after = report_of(tmp_path / "after", SLOW_BATCHES | {"getitem_ms": 35, "queue_ms": 19})

    gain = before["findings"][0]["gain"]
    true = after["throughput"]["samples_per_s"] / before["throughput"]["samples_per_s"]
    assert gain["low"] <= true <= gain["high"]


def test_waiting_for_a_core_goes_with_reopened_files_as_much_as_their_making(tmp_path):
    changes, _ = FIRING["reopened-files of a container"]
    reports = {delay: report_of(tmp_path / str(delay), {**changes, "delay_ms": delay}) for delay in (0, 10)}

    gains = {delay: report["findings"][0]["gain"] for delay, report in reports.items()}
    steps_ms = {delay: 1e3 / report["throughput"]["steps_per_s"] for delay, report in reports.items()}
    left_ms = {delay: steps_ms[delay] / gains[delay]["predicted"] for delay in reports}
    # The waits for batches hide what the training waits for cores: a step is no longer by it, and what is left of it is shorter.
    assert steps_ms[10] == pytest.approx(steps_ms[0], rel=0.05)
    assert gains[10]["predicted"] < gains[0]["predicted"]
    assert left_ms[10] - left_ms[0] < 0.5 * 10


SERIAL = {"workers": 0, "getitem_ms": 12, "collate_ms": 1}


@pytest.mark.parametrize("loop", [{}, {"loader": False, "input_ms": 13}], ids=["loader", "no loader"])
@pytest.mark.parametrize(
    ("beside", "known"),
    [
        ({"cores": 2, "helping_cores": 0.9}, False),
        ({"cores": 2, "helping_cores": 0.9, "threads": 1}, True),
        ({"cores": 2, "helping_cores": 0.2}, True),
        ({"cores": 4, "helping_cores": 0.9}, True),
    ],
)
def test_what_a_worker_gains_is_not_known_where_the_trainings_threads_leave_it_no_core(tmp_path, beside, known, loop):
    report = report_of(tmp_path, {**SERIAL, **beside, **loop})

    finding = next(finding for finding in report["findings"] if finding["rule"] == "serial-loader")
    assert (finding["gain"]["predicted"] is not None) == known
    assert (report["verdict"]["state"], report["verdict"]["rule"]) == (("bottleneck", "serial-loader") if known else ("undetermined", None))


SHORT: dict[str, Any] = {
    "workers": 0, "batch_size": 4, "per_sample_ms": 0.5, "fixed_ms": 0.5, "optimizer_ms": 0.2, "cores": 2, "helping_cores": 0.9,
}  # fmt: skip


@pytest.mark.parametrize(
    ("input_ms", "found"),
    [
        ({"getitem_ms": 0.7, "collate_ms": 0.2}, False),
        ({"getitem_ms": 1.8, "collate_ms": 0.2}, True),
        ({"loader": False, "input_ms": 1.0}, False),
        ({"loader": False, "input_ms": 2.0}, True),
    ],
    ids=["receiving takes as long", "less than making", "a loop's takes as long", "less than a loop's making"],
)
def test_no_worker_is_advised_that_finds_no_core_and_would_gain_nothing_on_one(tmp_path, input_ms, found):
    report = report_of(tmp_path, SHORT | input_ms)

    assert ("serial-loader" in named(report)) == found
    assert ("num_workers=1" in json.dumps(report)) == found


@pytest.mark.parametrize(("dataset", "said"), [("TensorDataset", True), ("MaskFolder", False)])
def test_samples_of_tensors_that_no_worker_makes_sooner_may_be_taken_in_whole_batches(tmp_path, dataset, said):
    report = report_of(tmp_path, SHORT | {"getitem_ms": 0.7, "collate_ms": 0.2, "dataset": dataset})

    assert report["verdict"]["code"] == "no-fix-known"
    assert ("whole batches of a TensorDataset" in report["verdict"]["summary"]) == said


@pytest.mark.parametrize(("now", "cpu_ms", "workers"), [(0, 10, 6), (0, 30, 2), (0, 45, 2), (1, 30, 4), (1, 30.3, 4), (1, 45, 2)])
def test_as_many_workers_are_proposed_as_compute_at_once(now, cpu_ms, workers):
    # Blocked for most of their time; computing; beside threads that spin; beside the recorder's own readings; and with a library's threads.
    nothing = np.zeros(10)
    side = Side(
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


def test_full_cores_name_the_innermost_function_that_holds_most_of_the_making(tmp_path):
    nested = timed(("__iter__", DATA, 1, 0.98), ("parse", DATA, 1, 0.9), ("scale", DATA, 1, 0.2), (DECODE, None, 1, 0.6))

    report = report_of(tmp_path, SLOW_BATCHES | {"producer_lines": (nested,)})

    evidence = report["findings"][0]["evidence"]
    assert report["findings"][0]["rule"] == "preprocess-saturates-cpu"
    assert [row["name"] for row in evidence if row["unit"] == "share of making a batch"] == ["parse", "scale"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"epoch_steps": None}, "if each connection is slow by itself: slowstep prove --levers workers="),
        ({"foreign_cores": 3.5}, "slowstep prove --levers workers="),
        ({"blocked_together": True}, None),
    ],
    ids=["not known", "each by itself", "all together"],
)
def test_the_experiment_with_more_workers_is_named_unless_all_connections_share_a_limit(tmp_path, changes, told):
    report = report_of(tmp_path, NET | {"producer_lines": (BODY,)} | changes)

    (finding,) = [finding for finding in report["findings"] if finding["rule"] == "network-input-capped"]
    named = [fix["text"] for fix in finding["fixes"] if (fix["lever"] or "").startswith("workers=")]
    assert len(named) == (told is not None)
    assert all(told in text for text in named)


LOCKED: dict[str, Any] = {"workers": 2, "getitem_ms": 4, "blocked_ms": 60, "cores": 4}


def test_workers_that_wait_for_one_limit_are_not_told_to_become_more(tmp_path):
    report = report_of(tmp_path, LOCKED | {"blocked_together": True})

    assert "too-few-workers" not in {finding["rule"] for finding in report["findings"]}
    assert report["verdict"]["state"] == "undetermined"
    codes = {row["rule"]: row["code"] for row in report["not_judged"]}
    assert codes["too-few-workers"] == "workers-share-a-limit"


@pytest.mark.parametrize(
    ("found", "expected"),
    [(None, 1.0), ((0.0, -0.1, 0.1), 1.0), ((0.3, 0.2, 0.4), 2**0.3), ((0.3, -0.1, 0.6), 1.0)],
    ids=["not known", "each by itself", "a little", "perhaps"],
)
def test_more_workers_are_expected_to_hold_each_other_up_as_those_that_are_there(tmp_path, found, expected):
    m = measure(SOURCE.read(make_recording(tmp_path, Training(steps=100, **LOCKED))))
    slowed = None if found is None else MadeAtOnce(slows=found[0], low=found[1], high=found[2], fewer=20)
    alone = too_few_workers.judge(replace(m, input=replace(m.input, made_at_once=None)))

    answer = too_few_workers.judge(replace(m, input=replace(m.input, made_at_once=slowed)))

    workers = int(answer.finding.fixes[0].lever.removeprefix("workers="))
    blocked = alone.counterfactual.expected.beside_ns * expected ** (np.log2(workers / 2))
    assert answer.counterfactual.expected.beside_ns == pytest.approx(blocked, rel=0.1)
    assert answer.finding.gain.low <= alone.finding.gain.low + 1e-9
    assert (answer.counterfactual.assumes == alone.counterfactual.assumes) == (expected == 1.0)


@pytest.mark.parametrize(("arrays", "advice"), [(64_000_000, "return tensors"), (0, "send fewer bytes"), (None, "send fewer bytes")])
def test_arrays_that_are_pickled_are_told_to_be_tensors(tmp_path, arrays, advice):
    batch = form(size_bytes=64_000_000) | ({} if arrays is None else {"array_bytes": arrays})

    report = report_of(tmp_path, {"receive_ms": 30, "producer_lines": (batch,)})

    (finding,) = [finding for finding in report["findings"] if finding["rule"] == "batch-transport"]
    assert finding["fixes"][0]["text"].startswith(advice)


WIDE = form(size_bytes=8_000_000, spare_bytes=6_000_000)


@pytest.mark.parametrize(
    ("changes", "device", "code"),
    [
        ({"workers": 0}, "cuda", "own-batches-not-seen"),
        ({"workers": 0}, "cpu", None),
        ({}, "cuda", "no-batch-seen"),
        ({"producer_lines": (WIDE,)}, "cuda", None),
    ],
    ids=["no workers, a device", "no workers, no device", "no batch was seen", "a batch was seen"],
)
def test_whether_batches_are_wider_than_their_values_is_not_judged_where_none_was_looked_at(tmp_path, changes, device, code):
    m = replace(measure(SOURCE.read(make_recording(tmp_path, Training(steps=100, **changes)))), device=device)

    answer = host_widening.judge(m)

    assert isinstance(answer, NotJudged) == (code is not None)
    if isinstance(answer, NotJudged):
        assert answer.reason.code == code
        assert answer.advisory
