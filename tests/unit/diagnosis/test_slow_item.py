"""A data set whose own method is a loop in Python: it is the making of samples, and no part of it."""

from __future__ import annotations

import pytest

from judged_recordings import named, report_of
from made_recordings import DATA, Training, make_recording
from slowstep.analyses.measurements import measure
from slowstep.diagnosis.input_side import WARMED_EXPECTED
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules import slow_transform
from slowstep.sources.recording import SOURCE

LINE = {"file": DATA, "function": "__getitem__", "first_line": 20}
# Two threads of the training's own fill both cores.
CROWDED = {"workers": 0, "getitem_ms": 12, "collate_ms": 1, "cores": 2, "helping_cores": 0.9}
# Of the making, less than half is in one function below the data set's method.
SPREAD = {"transform": ("augment", 0.3)}


def counted(*lines: tuple[int, int, int], calls: int = 2):
    """Lines of the data set's method in one fetch: number, how often it ran, us in it; and the calls that ended meanwhile."""
    rows = [{**LINE, "line": line, "count": count, "ns": us * 1000} for line, count, us in lines]
    function = {**LINE, "calls": calls, "hooks": 0, "inside": 0, "gradient": 0, "nothing": 0, "nodes": 0, "of_nodes": 0}
    return {"kind": "lines", "of": "fetch", "complete": True, "lines": rows, "functions": [function] if calls else []}


LOOP = counted((21, 2, 100), (22, 1000, 900))
OPERATION = counted((21, 2, 900), (22, 1000, 100))


def report(tmp_path, *notes, **changes):
    return report_of(tmp_path, {**CROWDED, **SPREAD, "producer_lines": notes, **changes})


def test_a_loop_is_named_with_what_faster_code_gains_where_workers_find_no_cores(tmp_path):
    found = report(tmp_path, LOOP)

    assert found["verdict"]["rule"] == "slow-transform", found["verdict"]
    finding = found["findings"][0]
    assert finding["title"].startswith("__getitem__ (data.py:20) takes 100 % of the time in which samples are made")
    assert finding["also"] == ["serial-loader"]
    assert {row["name"]: row["value"] for row in finding["evidence"]}["a loop in Python"] == pytest.approx(0.9)
    assert finding["fixes"][0]["text"].startswith("vectorise __getitem__")


@pytest.mark.parametrize(
    "notes", [(), (OPERATION,), (counted((22, 6000, 900), calls=0),)], ids=["not counted", "operation", "not to its end"]
)
def test_what_is_not_known_to_be_a_loop_is_not_blamed(tmp_path, notes):
    found = report(tmp_path, *notes)

    assert "slow-transform" not in named(found)
    assert (found["verdict"]["state"], found["verdict"]["rule"]) == ("undetermined", None)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"workers": 0, "cores": 2, "getitem_ms": 70, "helping_cores": 0.0}, "workers would hide only a part of it"),
        ({"workers": 0}, "the training's own threads use the cores"),
        ({"workers": 2, "cores": 2, "getitem_ms": 70, "helping_cores": 0.0}, "the cores are used up"),
    ],
    ids=["an idle core", "full by the training's threads", "full by workers"],
)
def test_the_cores_are_used_up_only_where_none_is_idle(tmp_path, changes, why):
    finding = report(tmp_path, LOOP, **changes)["findings"][0]

    assert (finding["rule"], finding["title"].rpartition(", and ")[2]) == ("slow-transform", why)
    assert any("num_workers" in fix["text"] for fix in finding["fixes"]) == (why == "workers would hide only a part of it")


# A worker and the training on two cores, each of which the other's work keeps waiting.
BESIDE = {"workers": 1, "cores": 2, "getitem_ms": 28, "queue_ms": 4, "delay_ms": 8, "transform": ("augment", 0.8)}


def test_what_no_number_of_workers_hides_on_cores_that_are_shared_already_is_named(tmp_path):
    found = report_of(tmp_path, {**BESIDE, "helping_cores": 0.3})

    finding = found["findings"][0]
    assert (finding["rule"], finding["evidence"][0]["value"]) == ("slow-transform", "augment")
    assert "too-few-workers" not in named(found)
    bound = next(row for row in finding["evidence"] if row["name"] == "shortest step on these cores")
    assert bound["value"] > bound["threshold"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"helping_cores": 0.3, "cores": 16},
        {"foreign_cores": 0.6},
        {"helping_cores": 0.3, "getitem_ms": 24, "queue_ms": 0, "jitter": 0.9},
    ],
    ids=["one core", "idle cores", "cores that others use", "a worker that keeps up"],
)
def test_a_function_is_left_to_workers_that_find_cores_and_to_those_that_keep_up(tmp_path, changes):
    assert "slow-transform" not in named(report_of(tmp_path, {**BESIDE, **changes}))


def test_a_loop_that_workers_hide_is_left_to_these(tmp_path):
    assert named(report(tmp_path, LOOP, helping_cores=0.1, cores=16))[:1] == ["serial-loader"]


@pytest.mark.parametrize("note", [LOOP, OPERATION, None], ids=["in a loop", "in an operation", "not counted"])
def test_of_a_function_below_it_the_deepest_that_holds_half_is_named(tmp_path, note):
    found = report(tmp_path, *(() if note is None else (note,)), transform=("augment", 0.8))

    assert found["findings"][0]["rule"] == "slow-transform"
    assert "vectorise augment" in found["findings"][0]["fixes"][0]["text"]


def test_a_function_that_is_an_operation_is_not_advised_to_be_vectorised(tmp_path):
    place = {"function": "augment", "first_line": 40}
    note = {**OPERATION, "lines": [{**row, **place} for row in OPERATION["lines"]], "functions": [{**OPERATION["functions"][0], **place}]}

    found = report(tmp_path, note, transform=("augment", 0.8))

    assert found["findings"][0]["fixes"][0]["text"] == "do less in augment, or use faster libraries there"


@pytest.mark.parametrize(
    ("calls", "advice"),
    [
        ((), "do Compose.__call__ on whole batches, or use a faster library for it"),
        (
            (("ToTensor.__call__", 0.4), ("Normalize.forward", 0.2)),
            "do less in ToTensor.__call__ and Normalize.forward, or do it on whole batches",
        ),
    ],
    ids=["one function", "several in it"],
)
def test_the_transforms_of_a_library_s_data_set_are_named_with_what_they_call(tmp_path, calls, advice):
    library = "/opt/venv/lib/python3.11/site-packages/torchvision/data.py"

    found = report(tmp_path, transform=("Compose.__call__", 0.8), transform_calls=calls, data_file=library)

    finding = found["findings"][0]
    assert (finding["rule"], finding["fixes"][0]["text"]) == ("slow-transform", advice)
    assert [row["value"] for row in finding["evidence"] if row["name"] == "in it"] == [name for name, _ in calls]


def test_a_library_s_data_set_is_not_named_for_being_one(tmp_path):
    library = "/opt/venv/lib/python3.11/site-packages/torchvision/data.py"

    assert "slow-transform" not in named(report(tmp_path, data_file=library))


# Steps of 3.3 ms, of which the training thread makes a batch for 0.9: receiving one from a worker takes as long.
SMALL = {"workers": 0, "getitem_ms": 0.85, "collate_ms": 0.05, "fixed_ms": 0.6, "per_sample_ms": 0.05, "transform": ("augment", 0.8)}
AUGMENT = {"file": DATA, "function": "augment", "first_line": 40}


def of_augment(*lines: tuple[int, int, int]):
    """The same of the function below the data set's method."""
    note = counted(*lines)
    return {**note, "lines": [{**row, **AUGMENT} for row in note["lines"]], "functions": [{**row, **AUGMENT} for row in note["functions"]]}


def test_a_loop_that_workers_hide_at_no_profit_is_named(tmp_path):
    found = report_of(tmp_path, {**SMALL, "producer_lines": (of_augment((41, 2, 100), (42, 1000, 900)),)})

    finding = found["findings"][0]
    assert (found["verdict"]["rule"], finding["evidence"][0]["value"]) == ("slow-transform", "augment")
    assert "batches take about as long to receive from workers" in finding["title"]
    assert "receiving a batch instead" in [row["name"] for row in finding["evidence"]]


def test_at_worse_a_sample_still_takes_what_a_few_operations_take(tmp_path):
    loop = of_augment((41, 2, 100), (42, 1000, 900))
    m = measure(SOURCE.read(make_recording(tmp_path, Training(**{"steps": 300, **SMALL, "producer_lines": (loop,)}))))

    judged = slow_transform.judge(m)

    assert isinstance(judged, Judged)
    assert judged.counterfactual is not None
    expected, worse = (float(case.removed_ns.mean()) for case in (judged.counterfactual.expected, judged.counterfactual.worse))
    # Of 0.68 ms a twentieth is left, and 15 us for each of the 16 samples; what is spared lets the training's own work be shorter, too.
    assert expected == pytest.approx((1 + WARMED_EXPECTED.share) * 0.95 * 0.68e6, rel=0.02)
    assert worse == pytest.approx(0.68e6 - 16 * 15e3, rel=0.02)


def test_a_small_operation_that_workers_hide_at_no_profit_is_not_blamed(tmp_path):
    operation, unseen = (
        report_of(tmp_path / name, {**SMALL, "producer_lines": notes})
        for name, notes in (("operation", (of_augment((41, 2, 900), (42, 1000, 100)),)), ("unseen", ()))
    )

    assert "slow-transform" not in named(operation) + named(unseen)
    (row,) = [row for row in unseen["not_judged"] if row["rule"] == "slow-transform"]
    assert row["code"] == "loop-not-seen"
    assert "augment (data.py:40)" in row["reason"]
    assert "slow-transform" not in {row["rule"] for row in operation["not_judged"]}


def test_a_loop_that_workers_take_most_of_is_left_to_these(tmp_path):
    loop = of_augment((41, 2, 100), (42, 1000, 900))

    found = report_of(tmp_path, {**SMALL, "getitem_ms": 6.0, "fixed_ms": 8.0, "cores": 16, "producer_lines": (loop,)})

    assert named(found)[:1] == ["serial-loader"]
    assert "slow-transform" not in named(found)
