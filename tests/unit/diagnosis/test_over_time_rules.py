"""Rules about time that is not every step: trainings that have the problem, and trainings close to it that have not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from judged_recordings import named, report_of
from made_parts import function_part
from made_recordings import SCRIPT, Training, make_recording
from slowstep.analyses.measurements import measure
from slowstep.analyses.written import Written
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules import growing_file, growing_step_time, slow_callback
from slowstep.diagnosis.rules.iterator_recreated import MOST_BY_LISTS
from slowstep.findings import NotJudged
from slowstep.report.terminal import render
from slowstep.sources.recording import SOURCE
from slowstep.workflow.diagnose import diagnose_recording

Report = dict[str, Any]

# Small batches, most of whose step is an optimizer's.
SMALL: dict[str, Any] = {
    "optimizer_ms": 12, "fixed_ms": 4, "nodes": 280, "persistent": True, "batch_size": 2, "getitem_ms": 0.6, "collate_ms": 0.1,
    "per_sample_ms": 0.5, "optimizer_growth_ms": 20, "optimizer": {"type": "Adam", "device": "cpu", "fused": False},
}  # fmt: skip

# The problem, what the verdict must be, and the same training with the first fix applied.
FIRING: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "frequent-validation": ({"validation": (5, 60)}, "output", {"validation": (10, 60)}),
    "frequent-validation once an epoch, longer than the epoch": (
        {"validation": (25, 500), "epoch_steps": 25}, "output", {"validation": (50, 500), "epoch_steps": 25}
    ),
    "worker-restart": ({"start_ms": 100}, "preprocess", {"start_ms": 1}),
    "worker-restart of a trainer that counts batches": (
        {"start_ms": 100, "reads_to_end": False, "is_counted": True}, "preprocess", {"start_ms": 1}
    ),
    "iterator-recreated": (
        {"epoch_steps": 1, "reads_to_end": False, "prefetch": 1}, "preprocess", {"epoch_steps": 300, "persistent": True}
    ),
    "iterator-recreated of a serial loader whose epochs have one batch": (
        {"epoch_steps": 1, "order_ms": 40, "workers": 0, "getitem_ms": 1, "collate_ms": 0.1}, "preprocess",
        {"epoch_steps": 300, "workers": 0, "getitem_ms": 1, "collate_ms": 0.1}
    ),
    "straggler-samples": ({"stragglers": (4, 150), "persistent": True}, "preprocess", {"persistent": True}),
    "straggler-samples of a serial loader": (
        {"stragglers": (12, 150), "workers": 0, "getitem_ms": 1, "collate_ms": 0.1}, "preprocess",
        {"workers": 0, "getitem_ms": 1, "collate_ms": 0.1}
    ),
    "growing-step-time": (
        {"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.05}, "compute", {"getitem_ms": 2, "forward_share": 0.05}
    ),
    "growing-step-time by a function": (
        {"after_ms": 1, "after_growth_ms": 20, "getitem_ms": 2}, "output", {"after_ms": 1, "getitem_ms": 2}
    ),
    "growing-file": (
        {"after_ms": 1, "after_growth_ms": 20, "after_writes": True, "getitem_ms": 2}, "output",
        {"after_ms": 1, "after_writes": True, "getitem_ms": 2}
    ),
    "growing-step-time by a graph that is kept": (
        {"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.05, "more_kept": 2000}, "compute",
        {"getitem_ms": 2, "forward_share": 0.05}
    ),
    "growing-file by an encoder that is in no stack": (
        {"after_ms": 1, "after_growth_ms": 20, "written_growth_bytes": 2_000_000, "getitem_ms": 2}, "output",
        {"after_ms": 1, "getitem_ms": 2}
    ),
    "growing-file on a core that it takes from the workers": (
        {"after_ms": 1, "after_growth_ms": 60, "after_writes": True, "getitem_ms": 10, "cores": 2}, "output",
        {"after_ms": 1, "after_writes": True, "getitem_ms": 10, "cores": 2}
    ),
    "periodic-stall": ({"stall": (10, 60)}, "compute", {}),
}  # fmt: skip

CLOSE: dict[str, dict[str, Any]] = {
    "frequent-validation": {"validation": (25, 60)},
    "frequent-validation once an epoch, as long as usual": {"validation": (25, 150), "epoch_steps": 25},
    "frequent-validation seen twice": {"validation": (140, 3000), "epoch_steps": 25},
    "worker-restart of workers that stay": {"start_ms": 100, "persistent": True},
    "worker-restart in long epochs": {"start_ms": 100, "epoch_steps": 300},
    "iterator-recreated in epochs of one step": {"epoch_steps": 1},
    "iterator-recreated in counted epochs of one step": {"epoch_steps": 1, "start_ms": 100, "reads_to_end": False, "is_counted": True},
    "worker-restart where epochs are left early": {"start_ms": 100, "reads_to_end": False},
    "iterator-recreated where epochs are left early": {"epoch_steps": 10, "reads_to_end": False, "start_ms": 30},
    "straggler-samples that workers hide": {"stragglers": (12, 8), "persistent": True},
    "straggler-samples seen twice": {"stragglers": (130, 900), "persistent": True},
    "growing-step-time": {"work_growth_ms": 1.2},
    "growing-step-time that jumps up and down": {"jitter": 0.5},
    "growing-file": {"after_ms": 8, "after_writes": True},
    "growing-file of too few bytes for its time": {"after_ms": 1, "after_growth_ms": 20, "written_growth_bytes": 20_000, "getitem_ms": 2},
    "growing-file of checkpoints that stay": {"saves": (10, 20)},
    "periodic-stall": {"stall": (10, 3)},
    "periodic-stall as often as workers have all made a batch": {"stall": (4, 25), "workers": 4, "getitem_ms": 2},
    "periodic-stall of forks at each epoch": {"stall": (20, 25), "epoch_steps": 20, "forks": True, "getitem_ms": 2},
    "periodic-stall of a larger input": {"stall": (10, 60), "stall_of_both": True, "stall_values": 3000},
    "periodic-stall of a checkpoint": {"saves": (10, 60)},
    "periodic-stall of a validation": {"validation": (10, 60)},
    "unstable-step-time": {"jitter": 0.4},
    "slow-start": {},
    "slow-start of a long training": {"startup_ms": 40_000, "steps": 20_000, "epoch_steps": 2000, "stack_period_ms": 1000.0},
}  # fmt: skip


def code_of(report: Report, rule: str = "growing-step-time") -> str:
    """Why the rule did not judge."""
    (row,) = [row for row in report["not_judged"] if row["rule"] == rule]
    return str(row["code"])


@pytest.mark.parametrize("case", FIRING)
def test_a_training_with_the_problem_gets_its_rule_and_stage(tmp_path, case):
    changes, stage, _ = FIRING[case]

    report = report_of(tmp_path, changes)

    verdict = report["verdict"]
    assert (verdict["state"], verdict["rule"], verdict["stage"]) == ("bottleneck", case.split()[0], stage), verdict["summary"]


@pytest.mark.parametrize("case", FIRING)
def test_the_predicted_gain_is_the_true_one_and_the_interval_holds_it(tmp_path, case):
    changes, _, fixed = FIRING[case]
    before, after = report_of(tmp_path / "before", changes), report_of(tmp_path / "after", fixed)

    truth = after["throughput"]["samples_per_s"] / before["throughput"]["samples_per_s"]
    gain = before["findings"][0]["gain"]
    assert gain["predicted"] == pytest.approx(truth, rel=0.08)
    assert gain["low"] <= truth <= gain["high"]


@pytest.mark.parametrize("case", CLOSE)
def test_a_training_close_to_the_problem_is_not_blamed_for_it(tmp_path, case):
    assert case.split()[0] not in named(report_of(tmp_path, CLOSE[case]))


@pytest.mark.parametrize(("epoch", "took", "times"), [(150, "1.50 s", "once"), (110, "3.00 s", "twice")])
def test_workers_that_were_started_too_seldom_to_judge_are_what_is_not_known(tmp_path, epoch, took, times):
    """Of two short epochs the start of many workers took a third: nothing said so."""
    report = report_of(tmp_path, {"start_ms": 1500, "epoch_steps": epoch, "workers": 8, "cores": 16, "getitem_ms": 15})

    assert "worker-restart" not in named(report)
    summary = report["verdict"]["summary"]
    assert f"worker-restart could not be judged: starting and ending the loader's 8 workers took {took}" in summary
    assert f"was seen {times}; record 3 epochs or more. Fewer workers start sooner, and persistent_workers=True" in summary


@pytest.mark.parametrize("change", [{"start_ms": 100}, {"persistent": True}], ids=["quick", "kept"])
def test_workers_that_start_quickly_or_stay_leave_no_verdict_open(tmp_path, change):
    report = report_of(tmp_path, {"start_ms": 1500, "epoch_steps": 150, "workers": 8, "cores": 16, "getitem_ms": 15, **change})

    assert "worker-restart" not in {row["rule"] for row in report["not_judged"]} | set(named(report))


@pytest.mark.parametrize(("micro_batches", "says"), [(1, "for every batch:"), (2, "for every 2 batches:")])
def test_how_many_batches_an_iterator_gives_is_said_in_words(tmp_path, micro_batches, says):
    changes, _, _ = FIRING["iterator-recreated"]

    report = report_of(tmp_path, {**changes, "micro_batches": micro_batches})

    assert says in next(finding["title"] for finding in report["findings"] if finding["rule"] == "iterator-recreated")


def test_at_better_the_indices_of_a_large_data_set_slow_the_trainings_own_work(tmp_path):
    """next(iter(loader)) of 400,000 samples: the lists took 3.1 times, without them it was 5.2 times as fast."""

    def gain(length: int) -> dict[str, float]:
        changes = {**FIRING["iterator-recreated of a serial loader whose epochs have one batch"][0], "dataset_length": length}
        report = report_of(tmp_path / str(length), changes)
        return dict(next(finding["gain"] for finding in report["findings"] if finding["rule"] == "iterator-recreated"))

    none, many, most = gain(0), gain(400_000), gain(400_000_000)

    assert (many["predicted"], many["low"]) == (none["predicted"], none["low"])
    assert none["high"] < many["high"] < most["high"]
    assert most["high"] == pytest.approx(none["high"] / (1 - MOST_BY_LISTS), rel=0.05)


LIGHTNING = "/usr/lib/python3.11/site-packages/lightning/pytorch/loops/fit_loop.py"


@pytest.mark.parametrize(
    ("file", "says"), [(LIGHTNING, "reload_dataloaders_every_n_epochs=0"), ("/home/user/project/loops/fit_loop.py", "for batch in loader")]
)
def test_iterators_that_lightning_makes_are_kept_by_its_own_arguments(tmp_path, file, says):
    folder = make_recording(tmp_path / "recording", Training(steps=300, epoch_steps=1, reads_to_end=False, prefetch=1))
    path = {"kind": "training_path", "optimizer": 0, "frames": [[SCRIPT, "main", 10, 30], [file, "_FitLoop.run", 1, 2]]}
    with (folder / "100-1.jsonl").open("a") as notes:
        notes.write(json.dumps(path) + "\n")

    (finding,) = [each for each in diagnose_recording(folder)["findings"] if each["rule"] == "iterator-recreated"]

    assert says in finding["fixes"][0]["text"]


LOOP = {"loader": False, "input_ms": 2}


@pytest.mark.parametrize("loop", [{}, LOOP], ids=["loader", "no loader"])
@pytest.mark.parametrize("growth", [1.0, 3.0])
def test_a_model_whose_inputs_grow_as_fast_is_healthy(tmp_path, growth, loop):
    report = report_of(tmp_path, {"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.4, "input_growth": growth, **loop})

    assert report["verdict"]["state"] == "healthy", report["verdict"]["summary"]
    assert code_of(report) == "grows-with-inputs"


@pytest.mark.parametrize("loop", [{}, LOOP], ids=["loader", "no loader"])
def test_inputs_that_grow_far_more_slowly_than_the_work_explain_nothing(tmp_path, loop):
    report = report_of(tmp_path, {"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.05, "input_growth": 0.1, **loop})

    assert report["verdict"]["rule"] == "growing-step-time"


@pytest.mark.parametrize("loop", [{}, LOOP], ids=["loader", "no loader"])
def test_a_model_that_grows_as_a_whole_by_inputs_of_unknown_size_is_not_judged(tmp_path, loop):
    grows = {"getitem_ms": 2, "tells_bytes": False, **loop}

    whole = report_of(tmp_path / "whole", {**grows, "work_growth_ms": 20, "forward_share": 0.4})
    backward = report_of(tmp_path / "backward", {**grows, "work_growth_ms": 20, "forward_share": 0.0})

    assert whole["verdict"]["state"] == "undetermined"
    assert code_of(whole) == "grows-as-a-whole"
    assert backward["verdict"]["rule"] == "growing-step-time"


GROWS = {"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.05}


@pytest.mark.parametrize(("device", "flushed"), [("cpu", True), ("cuda", False)])
def test_of_an_optimizer_that_grows_denormal_numbers_are_named_on_a_processor(tmp_path, device, flushed):
    report = report_of(tmp_path, {"optimizer_growth_ms": 20, "getitem_ms": 2, "optimizer": {"device": device}})

    finding = report["findings"][0]
    assert (finding["rule"], finding["claims"]) == ("growing-step-time", ["optimizer"])
    assert ("set_flush_denormal(True)" in finding["fixes"][0]["text"]) == flushed
    assert "look for what optimizer keeps" in finding["fixes"][-1]["text"]


def test_of_a_forward_that_grows_no_denormal_numbers_are_named(tmp_path):
    report = report_of(tmp_path, {"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.05})

    assert report["findings"][0]["rule"] == "growing-step-time"
    assert not any("denormal" in fix["text"] for fix in report["findings"][0]["fixes"])


def test_of_a_small_batch_whose_optimizer_grows_both_are_said(tmp_path):
    report = report_of(tmp_path, SMALL)

    finding = report["findings"][0]
    texts = [fix["text"] for fix in finding["fixes"]]
    assert (finding["rule"], sorted(finding["also"])) == ("unfused-optimizer", ["growing-step-time", "small-batch"])
    assert "fused=True" in texts[0]
    assert "set_flush_denormal(True)" in texts[1]


@pytest.mark.parametrize("stairs", [1, 4, 40])
def test_a_model_of_which_ever_more_learns_is_healthy(tmp_path, stairs):
    report = report_of(tmp_path, GROWS | {"work_in_stairs": stairs, "more_parameters": (2000, stairs), "more_nodes": 60, "steps": 400})

    assert report["verdict"]["state"] == "healthy", report["verdict"]["summary"]
    if stairs > 1:
        assert code_of(report) == "grows-with-parameters"


def test_what_grows_while_the_same_parameters_learn_is_not_excused_by_those_that_join(tmp_path):
    report = report_of(tmp_path, GROWS | {"more_parameters": (2000, 4), "steps": 400})

    assert report["verdict"]["state"] == "undetermined"
    assert code_of(report) == "grows-beside-parameters"


def test_ever_more_operations_in_a_step_are_unrolled_or_walk_what_is_kept(tmp_path):
    report = report_of(tmp_path, GROWS | {"more_nodes": 60})

    assert report["verdict"]["state"] == "undetermined"
    assert code_of(report) == "grows-by-operations"


def test_a_model_that_grows_for_reasons_that_nobody_saw_is_not_judged(tmp_path):
    report = report_of(tmp_path, GROWS | {"looks_at_graphs": False})

    assert report["verdict"]["state"] == "undetermined"
    assert code_of(report) == "graph-not-seen"


@pytest.mark.parametrize(("case", "advised"), [("", False), (" by a graph that is kept", True), (" by a function", False)])
def test_to_detach_is_advised_only_where_a_graph_is_kept(tmp_path, case, advised):
    finding = report_of(tmp_path, FIRING[f"growing-step-time{case}"][0])["findings"][0]

    assert ("detach()" in finding["fixes"][0]["text"]) is advised
    assert ("of them from earlier steps" in {row["name"] for row in finding["evidence"]}) is ("function" not in case)


UNNAMED = {"after_ms": 1, "after_growth_ms": 20, "after_unseen": True, "after": "", "getitem_ms": 2, "stack_period_ms": 1e9}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "what runs between the update in train.py:30 and the request for the next batch"),
        ({"loader": False}, "what runs beside forward, backward and update and could not be named"),
    ],
    ids=["a loader", "no loader"],
)
def test_what_grows_and_has_no_name_is_told_by_where_it_runs(tmp_path, changes, said):
    """A list that the loop searches itself grew by "unattributed", and what "unattributed walks" was to be looked for."""
    report = report_of(tmp_path, UNNAMED | changes)

    finding = report["findings"][0]
    assert (finding["rule"], finding["stage"]) == ("growing-step-time", "unattributed")
    sentences = (finding["title"], finding["gain"]["assumes"], finding["fixes"][0]["text"], report["verdict"]["summary"])
    for sentence in sentences:
        assert said in sentence
        assert "unattributed" not in sentence
    assert "slowstep.span()" in finding["fixes"][0]["text"]


WRAPPER = ("/usr/lib/python3.11/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper")


def test_growth_is_not_blamed_on_the_last_of_the_update_where_the_interpreters_lock_changes_hands(tmp_path):
    report = report_of(tmp_path, {"after_ms": 1, "after_growth_ms": 20, "after": "", "after_library": WRAPPER, "getitem_ms": 2})

    finding = report["findings"][0]
    assert (finding["rule"], finding["stage"]) == ("growing-step-time", "unattributed")
    assert "what runs between the update in train.py:30 and the request for the next batch" in finding["title"]


@pytest.mark.parametrize(("stacks", "blamed"), [(4, False), (5, True)])
def test_growth_does_not_stand_on_a_few_stacks(tmp_path, stacks, blamed):
    make_recording(tmp_path, Training(**FIRING["growing-step-time by a function"][0]))
    m = measure(SOURCE.read(tmp_path))
    few = replace(m, ledger=replace(m.ledger, gap_stacks={function_part("output", "save_mask_images", "train.py", 80): stacks}))

    answers = growing_step_time.judge(few), slow_callback.judge(few)

    assert [isinstance(answer, Judged) for answer in answers] == [blamed, not blamed]
    if not blamed:
        assert isinstance(answers[0], NotJudged)
        assert (answers[0].reason.code, answers[0].reason.values["stacks"]) == ("growth-by-few-stacks", 4)


def test_the_page_calls_unattributed_time_no_stage(tmp_path):
    page = render(report_of(tmp_path, UNNAMED), width=120, color=False, unicode=False)

    assert "BOTTLENECK in unattributed time: growing-step-time" in page
    assert "growing-step-time in unattributed time" in page


def test_a_file_that_begins_with_nothing_never_takes_less_than_that(tmp_path):
    """A line through times that grow faster and faster begins below nothing: "-0 ms at first"."""
    make_recording(tmp_path, Training(**FIRING["growing-file"][0]))
    m = measure(SOURCE.read(tmp_path))
    growth = m.over_time.growth
    assert growth is not None
    below = replace(growth, trend=replace(growth.trend, first=-0.4e6))

    answer = growing_file.judge(replace(m, over_time=replace(m.over_time, growth=below)))

    assert isinstance(answer, Judged)
    assert ": 0 ms at first" in answer.finding.title


OPENING_MS, LONG_BYTES, GROWTH_BYTES = 2, 400_000, 2_000_000


@pytest.mark.parametrize("is_known", [True, False], ids=["bytes known", "unknown"])
def test_appending_spares_a_file_that_begins_long_all_but_its_opening(tmp_path, is_known):
    """Writing takes 10 ns a byte: "takes no longer than at first" leaves the 4 ms of what is there already."""
    make_recording(tmp_path, Training(**{**FIRING["growing-file"][0], "after_ms": OPENING_MS + 4, "after_growth_ms": 20, "steps": 300}))
    m = measure(SOURCE.read(tmp_path))
    growth = m.over_time.growth
    assert growth is not None
    before = int(np.searchsorted(m.trainer.update_end_ns, m.steps.edges_ns[0], side="right"))
    first, last = (LONG_BYTES + GROWTH_BYTES * step / 300 for step in (before, before + m.steps.stretches))
    written = Written(first_bytes=first, last_bytes=last, steadily=True) if is_known else None

    answer = growing_file.judge(replace(m, over_time=replace(m.over_time, written=written)))

    assert isinstance(answer, Judged)
    left_ms = float((m.ledger.of_parts(growth.part) - answer.counterfactual.expected.removed_ns).mean()) / 1e6
    assert left_ms == pytest.approx(OPENING_MS if is_known else OPENING_MS + 4, abs=0.8)
    assert answer.counterfactual.worse.removed_ns.mean() <= growth.above_ns.mean()
    assert answer.counterfactual.assumes.endswith("no longer than at first") is not is_known


def test_lines_that_write_a_growing_file_are_said_in_the_plural(tmp_path):
    make_recording(tmp_path, Training(after_ms=1, after_growth_ms=20, after="", written_growth_bytes=2_000_000, getitem_ms=2))
    block = {"kind": "loops", "optimizer": 0, "functions": [[SCRIPT, "main", 10, [[33, 36]]]]}
    with (tmp_path / "100-1.jsonl").open("a") as notes:
        notes.write(json.dumps(block) + "\n")

    finding = diagnose_recording(tmp_path)["findings"][0]

    assert finding["rule"] == "growing-file"
    assert finding["title"].startswith("lines 33-36 (train.py) write more at every step")
    assert "lines 33-36 (train.py) only append 9.65 KiB in each step" in finding["gain"]["assumes"]
    assert finding["fixes"][0]["text"].startswith("let lines 33-36 append what is new")


@pytest.mark.parametrize(("values", "state"), [(3000, "healthy"), (1000, "bottleneck"), (None, "undetermined")])
def test_a_step_that_takes_longer_as_a_whole_is_a_stall_only_where_it_has_no_more_to_compute(tmp_path, values, state):
    report = report_of(tmp_path, {"stall": (10, 60), "stall_of_both": True, "stall_values": values})

    assert report["verdict"]["state"] == state, report["verdict"]["summary"]
    if state == "healthy":
        assert report["run"]["periodic"][0]["name"] == "more to compute"


def test_slow_samples_are_named_by_index_and_how_often_they_were_slow(tmp_path):
    finding = report_of(tmp_path, FIRING["straggler-samples"][0])["findings"][0]

    assert " 17 (" in finding["title"]
    assert "99 (" in finding["title"]
    assert ", the others 375 us: " in finding["title"]


@pytest.mark.parametrize(("workers", "advised"), [(0, False), (1, True)])
def test_only_workers_make_more_batches_ahead_of_slow_samples(tmp_path, workers, advised):
    report = report_of(
        tmp_path, {"workers": workers, "persistent": workers > 0, "getitem_ms": 1, "collate_ms": 0.1, "stragglers": (12, 150)}
    )

    assert report["verdict"]["rule"] == "straggler-samples"
    assert any("prefetch_factor" in fix["text"] for fix in report["findings"][0]["fixes"]) is advised


def test_many_slow_samples_are_the_data_sets_way_and_not_stragglers(tmp_path):
    report = report_of(tmp_path, {"stragglers": (1, 60), "batch_size": 8, "persistent": True})

    assert "straggler-samples" not in named(report)


def test_workers_that_keep_up_with_uneven_batches_are_not_called_too_few(tmp_path):
    report = report_of(
        tmp_path, {"stragglers": (8, 90), "persistent": True, "getitem_ms": 4, "batch_size": 2, "last_batch": 2, "fixed_ms": 20}
    )

    assert "too-few-workers" not in named(report)
    (row,) = [row for row in report["not_judged"] if row["rule"] == "too-few-workers"]
    assert (row["code"], row["lever"]) == ("workers-keep-up", "prefetch=8")


def test_workers_that_keep_up_but_for_few_slow_samples_are_no_second_finding(tmp_path):
    report = report_of(tmp_path, {"stragglers": (16, 150), "persistent": True, "getitem_ms": 2})

    assert named(report) == ["straggler-samples"]
    assert "too-few-workers" not in {row["rule"] for row in report["not_judged"]}


def test_few_slow_samples_do_not_hide_that_all_are_made_serially(tmp_path):
    report = report_of(tmp_path, {"workers": 0, "getitem_ms": 20, "stragglers": (12, 60)})

    assert report["verdict"]["rule"] == "serial-loader"
    text = " ".join(render(report, width=80, color=False).split())
    assert re.search(r"Also +straggler-samples: index (17|99) \(\d+x\), (17|99) \(\d+x\) ", text), text


@pytest.mark.parametrize("on", [(100,), (100, 180)], ids=["once", "twice"])
def test_what_happened_once_or_twice_is_no_bottleneck_however_long_it_took(tmp_path, on):
    report = report_of(tmp_path, {"steps": 200, "after_ms": 3000, "after_on": on})

    assert report["verdict"]["state"] != "bottleneck", report["verdict"]["summary"]


def test_checkpoints_that_grow_are_named_beside_what_they_cost(tmp_path):
    report = report_of(tmp_path, {"saves": (5, 10), "save_growth_bytes": 200_000})

    assert "growing-file" in named(report)
    assert not {"growing-file"} & set(named(report_of(tmp_path / "same", {"saves": (5, 40)})))


def test_a_slow_start_is_advice_that_names_its_longest_part(tmp_path):
    report = report_of(tmp_path, {"startup_ms": 60_000})

    advice = report["findings"][-1]
    assert advice["rule"] == "slow-start"
    assert "before the import of torch" in advice["title"]
    assert advice["gain"]["predicted"] is None
    assert report["verdict"]["state"] == "healthy"


def test_the_first_of_long_steps_is_no_slow_start(tmp_path):
    report = report_of(tmp_path, {"startup_ms": 2_000, "fixed_ms": 40_000, "steps": 4, "epoch_steps": None, "stack_period_ms": 5_000.0})

    assert report["run"]["startup_s"] > 40
    assert "slow-start" not in named(report)


def test_uneven_work_is_advice_and_no_bottleneck(tmp_path):
    report = report_of(tmp_path, {"uneven": 4.0, "getitem_ms": 1})

    assert report["findings"][-1]["rule"] == "unstable-step-time"
    assert report["verdict"]["state"] == "healthy"


def test_steps_that_vary_with_their_number_of_samples_are_not_called_uneven(tmp_path):
    report = report_of(tmp_path, {"epoch_steps": 40, "steps": 200, "epoch_sizes": (4, 8, 16, 32, 64), "batch_size": 64})

    assert report["run"]["batch_sizes"] == [8, 32]
    assert "unstable-step-time" not in named(report)


def test_the_start_ups_parts_and_what_recurs_stand_in_the_report(tmp_path):
    run = report_of(tmp_path, {"saves": (10, 60)})["run"]

    assert [part["name"] for part in run["startup"]][:3] == [
        "before the import of torch", "import of torch", "other imports, data and model"
    ]  # fmt: skip
    assert sum(part["s"] for part in run["startup"]) == pytest.approx(run["startup_s"])
    assert run["startup"][0]["s"] == pytest.approx(0.2)
    assert (run["periodic"][0]["name"], run["periodic"][0]["every_steps"]) == ("checkpoint", 10)
    assert run["periodic"][0]["ms"] == pytest.approx(60, rel=0.01)
