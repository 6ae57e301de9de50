"""Rules about the training's own work: recordings with what the recorder adds for them, and close ones without the problem."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few import few
from made_events import Events
from made_measurements import changed
from made_parts import lines_part
from made_recordings import MS, SCRIPT, START_NS, TRAINER_THREAD, Training, make_recording
from made_topics import with_topics
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.diagnosis.evidence.after_update import activity_of, timed_functions
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules import beside_the_model, per_step_metrics, slow_callback
from slowstep.document.report import validate
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.record.writing import format as fmt
from slowstep.sources.recording import SOURCE
from slowstep.stages import STAGES
from slowstep.workflow.diagnose import diagnose_recording

Report = dict[str, Any]
Function = tuple[str, str, int]

LOGGING: Function = ("/usr/lib/python3.11/logging/__init__.py", "Logger.info", 1)
SKLEARN: Function = ("/usr/lib/python3.11/site-packages/sklearn/metrics/_ranking.py", "roc_auc_score", 1)
PILLOW: Function = ("/usr/lib/python3.11/site-packages/PIL/Image.py", "Image.save", 1)
FSYNC: Function = ("<built-in>", "built-in method posix.fsync", 0)
PRINT: Function = ("<built-in>", "built-in method builtins.print", 0)
AFTER: Function = (SCRIPT, "after_step", 80)
LOSS: Function = (SCRIPT, "weigh_pixels", 60)
BACKWARD: Function = ("/opt/slowstep/record/hooks/torch_backward.py", "_timed.<locals>.backward", 60)
OPTIMIZER: Function = ("/usr/lib/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper", 1)


def calls(kind: str, wall_ms: float, *rows: tuple[Function, float, float, list[list[float]]], stretches: int = 3) -> dict[str, Any]:
    """Timed calls: (function, total ms, own ms, callees with ms) of all stretches, each called once in each."""
    functions = [
        {"file": file, "function": name, "line": line, "calls": stretches, "total_ns": int(total * MS), "own_ns": int(own * MS),
         "callees": [[int(callee), int(ms * MS)] for callee, ms in callees]}
        for (file, name, line), total, own, callees in rows
    ]  # fmt: skip
    return {"kind": "calls", "of": kind, "stretches": stretches, "wall_ns": int(wall_ms * MS), "slowdown": 1.0, "functions": functions}


def lines(count: int, each_us: float) -> dict[str, Any]:
    file, name, first = LOSS
    rows = [{"file": file, "function": name, "first_line": first, "line": first + 4, "count": count, "ns": int(count * each_us * 1000)}]
    return {"kind": "lines", "of": "body", "complete": True, "lines": rows}


def called(**counts: int) -> dict[str, Any]:
    """LOSS's lines, each a long operation, and what its calls in one body were."""
    file, name, first = LOSS
    usual = {"calls": 9, "hooks": 0, "inside": 0, "gradient": 9, "nothing": 0, "nodes": 0, "of_nodes": 40}
    return {**lines(36, 250), "functions": [{"file": file, "function": name, "first_line": first, **usual, **counts}]}


def after_step(called: Function, share: float) -> dict[str, Any]:
    """Three gaps of 10 ms, all in a function that spends a share in another."""
    return calls("gap", 30, (AFTER, 30, 30 * (1 - share), [[1, 30 * share]]), (called, 30 * share, 30 * share, []))


def recording(
    folder: Path,
    *notes: dict[str, Any],
    records: list[bytes] | None = None,
    changed: dict[str, dict[str, Any]] | None = None,
    **training: Any,
) -> Path:
    """A made recording with further notes and records of the trainer, and with lines of some kinds changed."""
    make_recording(folder, Training(**{"steps": 300, **training}))
    path = folder / "100-1.jsonl"
    timed_functions = [json.loads(line) for line in path.read_text().splitlines()]
    timed_functions = [{**line, **(changed or {}).get(line["kind"], {})} for line in timed_functions]
    path.write_text("".join(json.dumps(line) + "\n" for line in (*timed_functions, *notes)))
    path = folder / "100-1.rec"
    path.write_bytes(b"".join(records or []) + path.read_bytes())
    return folder


def report_of(folder: Path, *notes: dict[str, Any], **more: Any) -> Report:
    report = diagnose_recording(recording(folder, *notes, **more))
    validate(report)
    return report


def rules_in(report: Report) -> list[str]:
    return [rule for finding in report["findings"] for rule in (finding["rule"], *finding["also"])]


@pytest.fixture(scope="module")
def mended(tmp_path_factory):
    """Steps a second where what takes 10 ms after each update runs once in 50 steps."""
    return report_of(tmp_path_factory.mktemp("mended") / "recording", after_ms=10 / 50)["throughput"]["steps_per_s"]


NEXT: Function = ("<built-in>", "built-in method builtins.next", 0)
REQUEST: Function = ("/opt/slowstep/record/waits.py", "Waits.build_hook.<locals>.__next__", 76)
RUNNER: Function = (SCRIPT, "Runner.train", 30)
OUR_HOOK: Function = ("/opt/slowstep/record/hooks/torch_module.py", "_recorded.<locals>.call", 30)


def test_who_asks_for_the_next_batch_after_the_update_is_not_blamed_for_what_making_it_takes(tmp_path):
    """A runner's `train_iter` begins with `next(loader)`: the gap ends in it, and holds nothing but the request of its time."""
    rows = [(AFTER, 30, 30, []), (RUNNER, 45, 3, [[2, 42]]), (NEXT, 42, 0, [[3, 42]]), (REQUEST, 42, 42, [])]

    report = report_of(tmp_path, calls("gap", 75, *rows), after_ms=10, after="")

    finding = report["findings"][0]
    assert (finding["rule"], finding["evidence"][0]["value"]) == ("slow-callback", "after_step")
    after = {row["name"]: row["share"] for stage in report["ledger"] if stage["stage"] == "output" for row in stage["parts"]}
    # Of 33 ms beside the request, 30 and 3.
    assert after["after_step (train.py:80)"] == pytest.approx(10 * after["Runner.train (train.py:30)"], rel=0.01)


def test_a_callback_that_calls_a_model_whose_hooks_are_ours_keeps_its_time(tmp_path):
    rows = [(AFTER, 30, 1, [[1, 29]]), (OUR_HOOK, 29, 29, [])]

    report = report_of(tmp_path, calls("gap", 30, *rows), after_ms=10, after="")

    assert report["findings"][0]["evidence"][0]["value"] == "after_step"


# A body of 20 ms, of which forward and loss take 12: 9 of them in the function of the user's.
BODY = calls("body", 60, (LOSS, 27, 27, []), (BACKWARD, 21, 21, []), (OPTIMIZER, 3, 3, []))


GAUSS: Function = ("/usr/lib/python3.11/random.py", "Random.gauss", 1)
LAYER: Function = ("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1)


@pytest.mark.parametrize(("library", "is_named"), [(GAUSS, True), (LAYER, False)], ids=["a library's", "a layer of the model"])
def test_what_a_loop_calls_in_every_round_is_its_own(tmp_path, library, is_named):
    body = calls("body", 60, (LOSS, 27, 1, [[3, 26]]), (BACKWARD, 21, 21, []), (OPTIMIZER, 3, 3, []), (library, 26, 26, []))

    report = report_of(tmp_path, body, lines(5000, 0.4), forward_share=2 / 3)

    assert ("python-between-operations" in rules_in(report)) is is_named
    if is_named:
        assert report["findings"][0]["share"] > 0.3


CDIST: Function = ("/usr/lib/python3.11/site-packages/torch/functional.py", "cdist", 1)


@pytest.mark.parametrize(
    ("operation", "times", "share"),
    few([(CDIST, 1500, 0.45), (CDIST, 300, 0.2), (CDIST, 3, 0.2), (LAYER, 1500, 0.2)], every=2),
    ids=["short operations", "operations that take longer than their dispatch", "a few operations", "layers"],
)
def test_operations_of_torch_are_a_loops_where_they_take_no_longer_than_their_dispatch(tmp_path, operation, times, share):
    body = calls("body", 60, (LOSS, 27, 13, [[3, 14]]), (BACKWARD, 21, 21, []), (OPTIMIZER, 3, 3, []), (operation, 14, 14, []))
    body["functions"][3]["calls"] = times

    report = report_of(tmp_path, body, lines(5000, 0.4), forward_share=2 / 3)

    assert report["findings"][0]["share"] == pytest.approx(share, abs=0.03)


def test_steps_of_two_optimizers_are_healthy_only_where_they_were_looked_into(tmp_path):
    seen, unseen = report_of(tmp_path / "seen", BODY, critics=1), report_of(tmp_path / "unseen", critics=1)

    assert seen["verdict"]["state"] == "healthy"
    (row,) = [row for row in unseen["not_judged"] if row.get("in_verdict")]
    assert (row["rule"], row["code"]) == ("python-between-operations", "calls-of-several-optimizers")


def test_a_comprehension_has_the_name_of_its_function(tmp_path):
    name = "weigh_pixels.<locals>.<listcomp>.<listcomp>"
    inner: Function = (SCRIPT, name, 60)
    body = calls("body", 60, (inner, 27, 27, []), (BACKWARD, 21, 21, []), (OPTIMIZER, 3, 3, []))
    counted = lines(5000, 0.4)
    counted["lines"][0]["function"] = name

    report = report_of(tmp_path, body, counted, forward_share=2 / 3)

    assert report["findings"][0]["title"].startswith("weigh_pixels runs line train.py:64 at least 5000 times")


TOP_COMPREHENSION: Function = (SCRIPT, "<listcomp>", 24)
LAYER: Function = ("/usr/lib/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1782)


def counted_at_the_top(*own_lines: tuple[int, int]) -> dict[str, Any]:
    """Lines of a comprehension at the top level of a script, and (line, us) of that level's own."""
    top = {"file": SCRIPT, "function": "<module>", "first_line": 1, "count": 1}
    rows: list[dict[str, Any]] = [{"file": SCRIPT, "function": "<listcomp>", "first_line": 24, "line": 24, "count": 5000, "ns": 2_000_000}]
    rows += [{**top, "line": line, "ns": us * 1000} for line, us in own_lines]
    looked = {"calls": 2, "hooks": 0, "inside": 0, "gradient": 2, "nothing": 0, "nodes": 0, "of_nodes": 10}
    functions = [{"file": SCRIPT, "function": "<listcomp>", "first_line": 24, **looked}]
    return {"kind": "lines", "of": "body", "complete": False, "lines": rows, "functions": functions}


@pytest.mark.parametrize(
    ("left_ms", "layer", "others", "share"),
    few(
        [
            (9, LAYER, (), 18 / 36),
            (9, LAYER, ((20, 100),), 13.5 / 36),
            (9, OUR_HOOK, (), 9 / 36),
            (12, LAYER, (), 9 / 36),
        ],
        every=3,
    ),
    ids=["all on its line", "half of it on another line", "no module is called", "more than the loop itself"],
)
def test_what_makes_a_tensor_of_a_top_level_comprehension_counts_with_it(tmp_path, left_ms, layer, others, share):
    """The script had begun before the timed body: what its line does beside the comprehension has no row of its own."""
    forward_ms = 36 - 9 - left_ms
    usual = ((BACKWARD, 21, 21, []), (OPTIMIZER, 3, 3, []))
    body = calls("body", 60, (TOP_COMPREHENSION, 9, 9, []), (layer, forward_ms, forward_ms, []), *usual)

    report = report_of(tmp_path, body, counted_at_the_top((24, 100), *others), forward_share=2 / 3)

    finding = report["findings"][0]
    assert finding["title"].startswith("line train.py:24 runs at least 5000 times")
    (rest,) = [part["share"] for row in report["ledger"] for part in row["parts"] if part["name"] == "forward and the rest"]
    assert finding["share"] / rest == pytest.approx(share, rel=0.01)
    timed_functions = [finding, *finding["folded"]]
    assert not any("<module>" in each["title"] or "<module>" in each["fixes"][0]["text"] for each in timed_functions)
    assert any(each["title"].startswith("line train.py:24 runs in every step, is no part of the model") for each in finding["folded"])


def test_a_loop_in_python_is_named_with_its_line_and_its_gain(tmp_path):
    report = report_of(tmp_path, BODY, lines(5000, 0.4), forward_share=2 / 3)

    finding = report["findings"][0]
    assert (report["verdict"]["state"], report["verdict"]["rule"]) == ("bottleneck", "python-between-operations")
    assert "weigh_pixels runs line train.py:64 at least 5000 times" in finding["title"]
    step_ms = 1000 / report["throughput"]["steps_per_s"]
    assert finding["gain"]["predicted"] == pytest.approx(step_ms / (step_ms - 9 * 0.95), rel=0.01)


@pytest.mark.parametrize(
    "note",
    few([lines(12, 800), lines(5000, 60), lines(19, 0.4), called(calls=300, gradient=300, nodes=300) | lines(5000, 0.4)], every=3),
    ids=["a dozen long operations", "operations that take longer than their dispatch", "too few runs", "many calls of a few lines"],
)
def test_a_function_that_calls_long_operations_is_no_loop_in_python(tmp_path, note):
    report = report_of(tmp_path, BODY, note, forward_share=2 / 3)

    assert "python-between-operations" not in rules_in(report)
    assert report["verdict"]["state"] == "healthy"


def test_a_hook_that_only_looks_is_named_and_its_gain_predicted(tmp_path):
    report = report_of(tmp_path, BODY, called(hooks=9, inside=9, nothing=9, nodes=3), forward_share=2 / 3)

    finding = report["findings"][0]
    assert (report["verdict"]["state"], report["verdict"]["rule"]) == ("bottleneck", "beside-the-model")
    assert "weigh_pixels (train.py:60) is a hook that only looks at the model" in finding["title"]
    step_ms = 1000 / report["throughput"]["steps_per_s"]
    assert finding["gain"]["predicted"] == pytest.approx(step_ms / (step_ms - 9), rel=0.01)
    assert finding["gain"]["low"] < finding["gain"]["predicted"]


def test_what_no_graph_knows_is_named_and_not_called_healthy(tmp_path):
    report = report_of(tmp_path, BODY, called(), forward_share=2 / 3)

    assert rules_in(report) == ["beside-the-model"]
    assert report["findings"][0]["gain"]["predicted"] is None
    assert report["verdict"]["state"] == "undetermined"
    assert "beside-the-model" in report["verdict"]["summary"]


@pytest.mark.parametrize(
    "counts",
    few(
        [
            {"nodes": 1},
            {"gradient": 0},
            {"gradient": 8},
            {"inside": 9},
            {"hooks": 9, "inside": 9, "nothing": 8},
            {"hooks": 8, "inside": 9, "nothing": 9},
        ],
        every=3,
    ),
    ids=["a loss", "a teacher", "a teacher now and then", "part of a module", "a hook that changes", "now and then no hook"],
)
def test_what_is_the_models_own_is_not_beside_it(tmp_path, counts):
    report = report_of(tmp_path, BODY, called(**counts), forward_share=2 / 3)

    assert "beside-the-model" not in rules_in(report)
    assert report["verdict"]["state"] == "healthy"


def test_what_a_function_beside_the_model_has_modules_do_is_the_models(tmp_path):
    """A frozen model whose features a function asks for: all but its own line is spent in modules."""
    module = ("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1700)
    body = calls("body", 60, (LOSS, 27, 0.3, [[1, 26.7]]), (module, 26.7, 26.7, []), (BACKWARD, 21, 21, []), (OPTIMIZER, 3, 3, []))

    report = report_of(tmp_path, body, called(), forward_share=2 / 3)

    assert "beside-the-model" not in rules_in(report)


def test_a_loop_in_a_callback_that_runs_in_the_body_is_none_of_the_training(tmp_path):
    text = {"kind": "text", "id": 999, "text": "callback: Watch.on_train_batch_start"}
    place = {"kind": "place", "text": 999, "file": SCRIPT, "line": LOSS[2]}
    span = fmt.RECORD.pack(START_NS, START_NS + MS, 999, STAGES.index("output"), 0, TRAINER_THREAD, 0, 0, fmt.SPAN)

    report = report_of(tmp_path, BODY, lines(5000, 0.4), text, place, records=[span], forward_share=2 / 3)

    assert "python-between-operations" not in rules_in(report)


def test_the_backward_of_a_loop_is_taken_from_it_by_what_other_layers_leave(tmp_path):
    def gain(name: str, nodes: int) -> dict[str, float]:
        timed_functions = called(calls=1, gradient=1, nodes=nodes) | {"lines": lines(5000, 0.4)["lines"]}
        return dict(report_of(tmp_path / name, BODY, timed_functions, forward_share=1 / 3)["findings"][0]["gain"])

    few, many = gain("few", 0), gain("many", 38)

    assert few["predicted"] < many["predicted"] < few["predicted"] * 3
    assert many["low"] == pytest.approx(few["low"])
    assert many["high"] > many["predicted"]


@pytest.mark.parametrize(("graph", "gains_more"), few([(1000, True), (20, False), (None, False)], every=2))
def test_the_backward_of_a_loop_of_small_operations_is_no_less_than_such_loops_take(tmp_path, graph, gains_more):
    def gain(name: str, nodes: int) -> float:
        timed_functions = called(calls=1, gradient=1, nodes=nodes) | {"lines": lines(5000, 0.4)["lines"]}
        return float(report_of(tmp_path / name, BODY, timed_functions, forward_share=0.6, nodes=graph)["findings"][0]["gain"]["predicted"])

    # Twice the rest of the forward is all of the backward: nothing is left for the loop by what other layers take.
    without, all_nodes = gain("without", 0), gain("with", 38)

    assert (all_nodes > 1.3 * without) == gains_more


def test_what_timing_has_slowed_in_a_loop_is_taken_out_again(tmp_path):
    slowed = {**calls("body", 87, (LOSS, 54, 54, []), (BACKWARD, 21, 21, []), (OPTIMIZER, 3, 3, [])), "slowdown": 4.0}

    plain = report_of(tmp_path / "plain", BODY, lines(5000, 0.4), forward_share=2 / 3)["findings"][0]["gain"]
    gain = report_of(tmp_path / "slowed", slowed, lines(5000, 0.4), forward_share=2 / 3)["findings"][0]["gain"]

    assert gain["predicted"] == pytest.approx(plain["predicted"], rel=0.01)
    assert gain["high"] > plain["high"]


@pytest.mark.parametrize(("line", "apart"), [(30, True), (34, False)], ids=["the update's", "another"])
def test_a_line_that_makes_the_update_too_is_not_to_be_run_more_seldom(tmp_path, line, apart):
    listed: Function = (SCRIPT, "main.<locals>.<listcomp>", line)
    report = report_of(tmp_path, calls("gap", 30, (listed, 30, 30, [])), after_ms=10, after_unseen=True)

    finding = report["findings"][0]
    assert finding["fixes"][0]["text"].startswith("move what line 30 does besides the update" if apart else "run line 34 every k steps")
    assert finding["gain"]["assumes"].startswith("what line 30 does besides the update took" if apart else "line 34 took")


def test_of_a_model_that_is_called_the_class_is_named(tmp_path):
    module, torch = "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", "/usr/lib/python3.11/site-packages/torch/nn/modules"
    note = calls(
        "gap", 30, (AFTER, 30, 1, [[1, 29]]), ((module, "Module._wrapped_call_impl", 1774), 29, 0, [[2, 29]]),
        ((module, "Module._call_impl", 1782), 29, 0, [[3, 29], [4, 20]]),
        ((f"{torch}/container.py", "Sequential.forward", 248), 29, 9, [[1, 20]]),
        ((f"{torch}/linear.py", "Linear.forward", 130), 20, 20, []),
    )  # fmt: skip

    report = report_of(tmp_path, note, after_ms=10, after="after_step")

    (row,) = [row for row in report["findings"][0]["evidence"] if row["name"] == "most of it in"]
    assert row["value"] == "Sequential"


@pytest.mark.parametrize(
    ("called", "rule"), few([(LOGGING, "chatty-logging"), (PRINT, "chatty-logging"), (SKLEARN, "per-step-metrics")], every=2), ids=str
)
def test_what_a_function_after_the_update_does_is_said_and_its_gain_predicted(tmp_path, mended, called, rule):
    report = report_of(tmp_path, after_step(called, 0.9), after_ms=10, after="after_step")

    finding = report["findings"][0]
    assert (report["verdict"]["state"], finding["rule"], finding["also"]) == ("bottleneck", rule, ["slow-callback"])
    assert "after_step (train.py:80)" in finding["title"]
    truth = mended / report["throughput"]["steps_per_s"]
    assert finding["gain"]["predicted"] == pytest.approx(truth, rel=0.03)
    assert finding["gain"]["low"] <= truth <= finding["gain"]["high"]


@pytest.mark.parametrize(("called", "share"), few([(LOGGING, 0.3), (SKLEARN, 0.3), (PILLOW, 0.9)], every=2), ids=str)
def test_a_function_that_mostly_does_something_else_is_a_slow_callback(tmp_path, called, share):
    report = report_of(tmp_path, after_step(called, share), after_ms=10, after="after_step")

    assert report["verdict"]["rule"] == "slow-callback"
    assert not {"chatty-logging", "per-step-metrics"} & set(rules_in(report))


NUMPY: Function = ("<built-in>", "method 'reduce' of 'numpy.ufunc' objects", 0)


@pytest.mark.parametrize(
    ("name", "rule"),
    few([("after_step", "slow-callback"), ("cluster_features", "slow-callback"), ("auc_per_class", "per-step-metrics")], every=2),
)
def test_what_is_computed_with_arrays_is_metrics_only_in_a_function_that_is_named_so(tmp_path, name, rule):
    # After the update runs after_step, which may call the function.
    inner: Function = (SCRIPT, name, 90)
    rows = [(inner, 28, 2, [[1, 26]]), (NUMPY, 26, 26, [])]
    if name != "after_step":
        rows = [(AFTER, 30, 2, [[1, 28]]), (inner, 28, 2, [[2, 26]]), (NUMPY, 26, 26, [])]

    report = report_of(tmp_path, calls("gap", 30, *rows), after_ms=10, after="after_step")

    assert report["verdict"]["rule"] == rule


@pytest.mark.parametrize(
    ("module", "rule"), [("metrics/_ranking.py", "per-step-metrics"), ("cluster/_kmeans.py", "slow-callback")], ids=str
)
def test_of_a_library_for_more_than_metrics_its_metrics_count(tmp_path, module, rule):
    package = "/usr/lib/python3.11/site-packages/sklearn"
    wrapper: Function = (f"{package}/utils/_param_validation.py", "validate_params.<locals>.decorator.<locals>.wrapper", 1)
    rows = [(wrapper, 29, 1, [[1, 28]]), ((f"{package}/{module}", "work", 1), 28, 28, [])]

    report = report_of(tmp_path, calls("gap", 30, *rows), after_ms=10, after="")

    assert report["verdict"]["rule"] == rule


@pytest.mark.parametrize(("called", "advised"), [(FSYNC, "write it every k steps; no flush or fsync"), (PILLOW, "fewer images")], ids=str)
def test_what_mostly_writes_to_a_file_is_advised_to_write_less_often(tmp_path, called, advised):
    report = report_of(tmp_path, after_step(called, 0.7), after_ms=10, after="after_step")

    texts = [fix["text"] for fix in report["findings"][0]["fixes"]]
    assert advised in texts[1]
    assert "holds 70 % of it" in texts[1]


OPEN: Function = ("<built-in>", "built-in method io.open", 0)


@pytest.mark.parametrize(
    ("growth_ms", "timed_at", "named"), [(0, 0, True), (20, 0, False), (20, 180, True)], ids=["steady", "early", "late"]
)
def test_what_holds_most_of_a_callback_that_grows_is_not_said_by_early_calls(tmp_path, growth_ms, timed_at, named):
    """A JSON history begins empty: while it was, its opening was "98 % of it"."""
    folder = recording(tmp_path, after_ms=10 - growth_ms / 4, after_growth_ms=growth_ms, after="after_step")
    ends_ns = find_trainer(SOURCE.read(folder)).update_end_ns
    note = {**after_step(OPEN, 0.9), "began_ns": [int(at) for at in ends_ns[timed_at : timed_at + 3]]}
    with (folder / "100-1.jsonl").open("a") as notes:
        notes.write(json.dumps(note) + "\n")
    m = measure_recording(SOURCE.read(folder))

    (entry,) = timed_functions(m)
    doing = activity_of(m, entry.part)

    assert (entry.within is not None, doing is not None) == (named, named)


@pytest.mark.parametrize(
    ("name", "also_there", "known"),
    few(
        [("Table.after_step", (), True), ("Sub.on_step_end", (), True), ("Sub.on_step_end", ("<lambda>",), False), (None, (), False)],
        every=3,
    ),
    ids=["a class in a function", "of a base class", "several functions", "a line of the loop"],
)
def test_what_a_framework_names_by_its_instance_is_known_by_its_place(tmp_path, name, also_there, known):
    m = measure_recording(SOURCE.read(recording(tmp_path, after_step(OPEN, 0.9), after_ms=10, after="after_step")))
    (entry,) = timed_functions(m)
    ((file, _, line), doing), *_ = m.after_update.activities.items()
    activities = {(file, name, line): doing for name in ("main.<locals>.Table.after_step", *also_there)}
    m = changed(m, activities=activities)

    found = activity_of(m, replace(entry.part, name=name, kind=PartKind.LINES if name is None else PartKind.CALLBACK))

    assert found == (doing if known else None)


SORTED: Function = ("<built-in>", "built-in method builtins.sorted", 0)
MATRIX: Function = ("<built-in>", "built-in method torch.matmul", 0)
COMPRESS: Function = ("<built-in>", "built-in method zlib.compress", 0)
KEPT_LOCK = "background process (a thread would hold the GIL)"
EITHER = "background thread or process"


@pytest.mark.parametrize(
    ("called", "aside", "less"),
    few(
        [
            (SORTED, KEPT_LOCK, "do less in after_step: less data, or operations on whole tensors or arrays (sorted holds"),
            (MATRIX, EITHER, "do less in after_step: fewer operations, on smaller tensors or arrays"),
            (PILLOW, EITHER, "do less in after_step: fewer images, or smaller ones"),
            (COMPRESS, EITHER, "do less in after_step: less to compress, or a lower level"),
        ],
        every=3,
    ),
    ids=str,
)
def test_the_advice_fits_what_a_callback_is_busy_with(tmp_path, called, aside, less):
    report = report_of(tmp_path, after_step(called, 0.7), after_ms=10, after="after_step")

    seldom, other = [fix["text"] for fix in report["findings"][0]["fixes"]]
    assert seldom == f"call after_step every k steps, or hand its work to a {aside}, where nothing needs it after every step"
    assert other.startswith(less)


def often(note: dict[str, Any], function: Function, calls: int) -> dict[str, Any]:
    """The same calls, those of one function so many."""
    rows = [{**row, "calls": calls} if row["function"] == function[1] else row for row in note["functions"]]
    return {**note, "functions": rows}


ARGMAX: Function = ("<built-in>", "method 'argmax' of 'torch._C.TensorBase' objects", 0)
COUNTS: Function = (SCRIPT, "confusion_counts", 90)


@pytest.mark.parametrize(("each_us", "is_loop"), [(5, True), (100, False)], ids=["brief", "long"])
def test_a_callback_with_a_loop_in_python_is_to_be_written_as_operations(tmp_path, each_us, is_loop):
    # Half of the time lies between the calls.
    note = calls("gap", 30, (AFTER, 30, 15, [[1, 15]]), (ARGMAX, 15, 15, []))

    report = report_of(tmp_path, often(note, ARGMAX, 15_000 // each_us), after_ms=10, after="after_step")

    first = report["findings"][0]["fixes"][0]["text"]
    assert (first == "write the loop in after_step as operations on whole tensors or arrays") is is_loop


@pytest.mark.parametrize(
    ("runs", "first", "last"),
    [(2, "call after_step every k steps", "do less in after_step (line 85 holds 90 % of it)"), (2000, "write the loop in after_step", "")],
    ids=["long", "often"],
)
def test_where_lines_were_counted_they_tell_what_a_callback_without_calls_does(tmp_path, runs, first, last):
    file, name, began = AFTER
    rows = [{"file": file, "function": name, "first_line": began, "line": at, "count": n, "ns": ns} for at, n, ns in
            [(84, 1, 1 * MS), (85, runs, 9 * MS)]]  # fmt: skip
    counted = {"kind": "lines", "of": "gap", "complete": True, "lines": rows}

    report = report_of(tmp_path, calls("gap", 30, (AFTER, 30, 30, [])), counted, after_ms=10, after="after_step")

    texts = [fix["text"] for fix in report["findings"][0]["fixes"]]
    assert texts[0].startswith(first)
    assert not last or texts[1] == last


@pytest.mark.parametrize(("other_ms", "named"), [(9, True), (0.9, False)], ids=["large", "small"])
def test_the_next_function_after_the_update_is_named_beside_the_largest(tmp_path, other_ms, named):
    note = calls("gap", 30, (AFTER, 30 - other_ms, 30 - other_ms, []), (COUNTS, other_ms, other_ms, []))

    finding = report_of(tmp_path, note, after_ms=10, after="after_step")["findings"][0]

    rows = [row for row in finding["evidence"] if row["name"] == "next after it: confusion_counts"]
    assert finding["title"].startswith("after_step (train.py:80) runs on the training thread")
    assert ("; confusion_counts (train.py:90) takes" in finding["title"]) is bool(rows) is named
    assert "confusion_counts" not in finding["gain"]["assumes"]


def test_a_callback_that_calls_nothing_may_be_a_loop_in_python(tmp_path):
    """Of a confusion matrix counted in a loop without calls it was said to do less, and that a thread may do it."""
    note = calls("gap", 30, (AFTER, 30, 1, [[1, 29]]), (COUNTS, 29, 29, []))

    report = report_of(tmp_path, note, after_ms=10, after="after_step")

    seldom, less = [fix["text"] for fix in report["findings"][0]["fixes"]]
    assert "background process (a thread would hold the GIL if it is a loop in Python)" in seldom
    assert less == "do less in confusion_counts: where it is a loop in Python, operations on whole tensors or arrays"


def test_of_a_callback_the_function_that_holds_most_of_it_is_named(tmp_path):
    loop = calls("gap", 30, (AFTER, 30, 1, [[1, 29]]), (COUNTS, 29, 14, [[2, 15]]), (ARGMAX, 15, 15, []))

    report = report_of(tmp_path, often(loop, ARGMAX, 3000), after_ms=10, after="after_step")

    finding = report["findings"][0]
    (row,) = [row for row in finding["evidence"] if row["name"] == "most of it in"]
    assert (row["value"], row["where"]) == ("confusion_counts", "97 %, train.py:90")
    assert finding["fixes"][0]["text"] == "write the loop in confusion_counts as operations on whole tensors or arrays"
    assert finding["fixes"][1]["text"].startswith("call after_step every k steps")


def test_a_comprehension_that_was_timed_after_the_update_is_a_line_of_the_loop(tmp_path):
    listed: Function = (SCRIPT, "main.<locals>.<listcomp>", 34)
    report = report_of(tmp_path, calls("gap", 30, (listed, 30, 30, [])), after_ms=10, after_unseen=True)

    assert report["verdict"]["rule"] == "slow-callback"
    assert report["findings"][0]["title"].startswith("line 34 (train.py) runs on the training thread")


@pytest.mark.parametrize(
    ("called", "rule"), few([(LOGGING, "chatty-logging"), (PRINT, "chatty-logging"), (SKLEARN, "per-step-metrics")], every=2), ids=str
)
def test_what_the_loop_itself_calls_of_such_a_library_is_named(tmp_path, called, rule):
    # No function of the user's between: stacks know the line only.
    report = report_of(tmp_path, calls("gap", 30, (called, 29, 29, [])), after_ms=10, after="")

    finding = report["findings"][0]
    assert (report["verdict"]["state"], finding["rule"]) == ("bottleneck", rule)
    assert finding["title"].startswith("line 34 (train.py)")
    (row,) = [row for row in finding["evidence"] if row["name"] == "most of it in"]
    assert row["value"] == called[1].removeprefix("built-in method builtins.")


@pytest.mark.parametrize(("function", "state"), [("Module._call_impl", "bottleneck"), ("Module.state_dict", "healthy")])
def test_a_training_whose_loop_calls_its_model_again_after_every_update_is_not_healthy(tmp_path, function, state):
    module = "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py"
    report = report_of(tmp_path, after_ms=10, after="", after_library=(module, function))

    assert report["verdict"]["state"] == state
    assert ("slow-callback" in rules_in(report)) == (state == "bottleneck")


@pytest.mark.parametrize(("called", "rule"), [(LOGGING, "chatty-logging"), (SKLEARN, "per-step-metrics")], ids=str)
def test_what_the_loop_itself_calls_is_named_where_no_stack_stands_for_its_line(tmp_path, mended, called, rule):
    # A handler in Python holds the GIL.
    report = report_of(tmp_path, calls("gap", 30, (called, 27, 27, [])), after_ms=10, after_unseen=True)

    finding = report["findings"][0]
    assert (report["verdict"]["state"], finding["rule"]) == ("bottleneck", rule)
    assert "(called by the loop)" in finding["title"]
    truth = mended / report["throughput"]["steps_per_s"]
    assert finding["gain"]["low"] <= truth <= finding["gain"]["high"]


@pytest.mark.parametrize(
    ("called", "rule", "advised"),
    few(
        [
            (PRINT, "chatty-logging", "write fewer lines"),
            (LOGGING, "chatty-logging", "raise the level"),
            (SKLEARN, "per-step-metrics", "gather"),
        ],
        every=2,
    ),
    ids=str,
)
def test_making_what_the_loop_prints_may_take_longer_than_printing_it(tmp_path, mended, called, rule, advised):
    """Of 64 flushed lines a step `print` took a fifth of the gap, and 1.05 (0.87-1.26) was said where 1.13 to 1.43 were true."""
    report = report_of(tmp_path, calls("gap", 30, (called, 6, 6, [])), after_ms=10, after_unseen=True)

    finding = report["findings"][0]
    assert (finding["rule"], finding["also"]) == (rule, ["slow-callback"])
    truth = mended / report["throughput"]["steps_per_s"]
    assert finding["gain"]["predicted"] < truth <= finding["gain"]["high"]
    assert "all unattributed time" in finding["gain"]["assumes"]
    assert finding["fixes"][1]["text"].startswith(advised)


def test_what_a_loop_prints_is_not_to_be_printed_by_a_thread(tmp_path):
    m = measure_recording(SOURCE.read(recording(tmp_path, calls("gap", 30, (PRINT, 27, 27, [])), after_ms=10, after_unseen=True)))

    judged = slow_callback.judge(m)

    assert isinstance(judged, Judged)
    assert [fix.text for fix in judged.finding.fixes] == ["print or log less, or call print every k steps"]


def test_what_the_loop_itself_calls_of_other_libraries_has_no_name_without_stacks(tmp_path):
    report = report_of(tmp_path, calls("gap", 30, (PILLOW, 27, 27, [])), after_ms=10, after_unseen=True)

    assert report["verdict"]["state"] == "undetermined"
    assert not {"chatty-logging", "per-step-metrics"} & set(rules_in(report))


@pytest.mark.parametrize(("shares", "logs"), [((0.4, 0.3, 0.3), False), ((0.9, 0.05, 0.05), True)], ids=["any line", "the longest"])
def test_a_line_is_not_blamed_for_what_another_line_may_call(tmp_path, shares, logs):
    # Log lines take 6 of 10 ms, and no stack tells which of the loop's lines writes them.
    m = measure_recording(SOURCE.read(recording(tmp_path, calls("gap", 30, (PRINT, 18, 18, [])), after_ms=10, after="")))
    whole = lines_part("output", "train.py", 34)
    pieces = [lines_part("output", "train.py", number) for number in (34, 35, 36)]
    row = m.ledger.parts.index(whole)
    rows = np.vstack([np.delete(m.ledger.ns, row, axis=0), *(m.ledger.ns[row] * share for share in shares)])
    parts = (*(part for part in m.ledger.parts if part != whole), *pieces)
    ledger = Ledger(parts=parts, ns=rows, gap_stacks=dict.fromkeys(pieces, 20), timed=m.ledger.timed)

    (entry,) = timed_functions(with_topics(m, ledger=ledger))

    assert (entry.name, entry.is_logger) == ("line 34", logs)


@pytest.mark.parametrize(
    ("printing_ms", "fixes"),
    [
        (14.4, ["print or log less in lines 34-36 (48 % of their time), or run them every k steps"]),
        (3, ["write the loop in lines 34-36 as operations", "run lines 34-36 every k steps, or hand their work to a background"]),
    ],
    ids=["prints", "computes"],
)
def test_a_loop_of_prints_is_not_to_be_written_as_operations_on_tensors(tmp_path, printing_ms, fixes):
    """Nearly half of such a loop was `print`, and the rest made what it printed."""
    note = calls("gap", 30, (PRINT, printing_ms, printing_ms, []))
    m = measure_recording(SOURCE.read(recording(tmp_path, note, after_ms=10, after="")))
    line, loop = lines_part("output", "train.py", 34), lines_part("output", "train.py", 34, 36)
    parts = tuple(loop if part == line else part for part in m.ledger.parts)
    ledger = Ledger(parts=parts, ns=m.ledger.ns, gap_stacks={loop: 20}, timed=m.ledger.timed)

    judged = slow_callback.judge(with_topics(m, ledger=ledger))

    assert isinstance(judged, Judged)
    texts = [fix.text for fix in judged.finding.fixes]
    assert all(text.startswith(begin) for text, begin in zip(texts, fixes, strict=True))


def test_a_function_with_many_prints_is_to_print_less(tmp_path):
    report = report_of(tmp_path, after_step(PRINT, 0.48), after_ms=10, after="after_step")

    seldom, less = [fix["text"] for fix in report["findings"][0]["fixes"]]
    assert seldom.startswith("call after_step every k steps")
    assert less == "print or log less in after_step (48 % of its time)"


def test_log_lines_of_every_tenth_step_are_not_said_to_be_of_every_step(tmp_path):
    tenth = {"after_ms": 100, "after": "", "after_on": tuple(range(5, 300, 10))}

    report = report_of(tmp_path, calls("gap", 300, (PRINT, 290, 290, [])), **tenth)

    (finding,) = [finding for finding in report["findings"] if "line 34" in finding["title"]]
    assert finding["rule"] == "slow-callback"
    assert "less often than every 10 steps" in json.dumps(finding["fixes"])


def test_functions_of_one_library_count_together(tmp_path):
    file, _, line = SKLEARN
    rows = [((file, name, line), ms, ms, []) for name, ms in (("f1_score", 15.0), ("accuracy_score", 14.0))]

    report = report_of(tmp_path, calls("gap", 30, *rows), after_ms=10, after="")

    (row,) = [row for row in report["findings"][0]["evidence"] if row["name"] == "most of it in"]
    assert (row["value"], row["where"]) == ("f1_score with accuracy_score", "97 %")


def test_wrappers_of_a_library_are_called_by_what_they_wrap(tmp_path):
    package = "/usr/lib/python3.11/site-packages/sklearn"
    wrapper: Function = (f"{package}/utils/validation.py", "validate.<locals>.wrapper", 1)
    other: Function = (f"{package}/utils/other.py", "other.<locals>.wrapper", 1)
    of_metrics: Function = (f"{package}/metrics/wrapped.py", "validate.<locals>.wrapper", 1)
    # The second one has nothing but wrappers that call each other.
    rows = [(wrapper, 29, 1, [[1, 28]]), (SKLEARN, 28, 20, [[2, 8]]), (other, 8, 4, [[0, 4]])]

    evidence = report_of(tmp_path, calls("gap", 30, *rows), after_ms=10, after="")["findings"][0]["evidence"]
    circle = [(of_metrics, 29, 21, [[1, 8]]), (other, 8, 4, [[0, 4]])]
    turning = report_of(tmp_path / "circle", calls("gap", 30, *circle), after_ms=10, after="")

    assert [row["value"] for row in evidence if row["name"] == "most of it in"] == ["roc_auc_score"]
    assert turning["findings"][0]["rule"] == "per-step-metrics"


def test_a_progress_bar_around_the_loader_is_not_blamed_for_its_batches(tmp_path):
    bar, loader = ("/usr/lib/python3.11/site-packages/tqdm/std.py", "tqdm.__iter__", 1), "/opt/slowstep/record/waits.py"
    rows = [(bar, 29, 1, [[1, 28]]), ((loader, "Waits.__next__", 1), 28, 28, [])]

    report = report_of(tmp_path, calls("gap", 30, *rows), after_ms=10, after="")

    assert report["findings"][0]["rule"] == "slow-callback"
    assert "tqdm" not in json.dumps(report["findings"])


WALK: Function = ("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", "Module.parameters", 1)
NO_GRAD: Function = ("/usr/lib/python3.11/site-packages/torch/utils/_contextlib.py", "context_decorator.<locals>.decorate_context", 1)
CAT: Function = ("<built-in>", "built-in method torch.cat", 0)
PICTURES: Function = ("/usr/lib/python3.11/site-packages/torchvision/utils.py", "save_image", 1)


def method(name: str) -> Function:
    return ("<built-in>", f"method '{name}' of 'torch._C.TensorBase' objects", 0)


@pytest.mark.parametrize(
    ("rows", "within", "aside"),
    few(
        [
            ([(AFTER, 30, 3, [[1, 3], [2, 24]]), (WALK, 3, 3, []), (method("lerp_"), 24, 24, [])], "Tensor.lerp_", False),
            ([(AFTER, 30, 8, [[1, 3], [2, 19]]), (WALK, 3, 3, []), (method("clone"), 19, 19, [])], "Tensor.clone", False),
            ([(AFTER, 30, 8, [[1, 3], [2, 19]]), (WALK, 3, 3, []), (CAT, 19, 19, [])], "torch.cat", False),
            ([(AFTER, 30, 3, [[1, 3], [2, 24]]), (WALK, 3, 3, []), (method("norm"), 24, 24, [])], "Tensor.norm", True),
            ([(AFTER, 30, 8, [[1, 19], [2, 3]]), (method("clone"), 19, 19, []), (PICTURES, 3, 3, [])], "Tensor.clone", True),
            ([(AFTER, 30, 3, [[1, 27]]), (PICTURES, 27, 24, [[2, 3]]), (method("add_"), 3, 3, [])], "save_image", True),
        ],
        every=3,
    ),
    ids=[
        "an average of weights",
        "an average into new tensors",
        "one tensor of all weights",
        "norms of weights",
        "copies of other tensors",
        "pictures",
    ],
)
def test_a_slow_callback_says_what_holds_it_and_an_average_of_weights_is_not_sent_aside(tmp_path, rows, within, aside):
    report = report_of(tmp_path, calls("gap", 30, *rows), after_ms=10, after="after_step")

    finding = report["findings"][0]
    (row,) = [row for row in finding["evidence"] if row["name"] == "most of it in"]
    assert (finding["rule"], row["value"]) == ("slow-callback", within)
    assert any("background thread" in fix["text"] for fix in finding["fixes"]) == aside


def test_a_copy_of_weights_is_not_taken_for_an_average_of_them(tmp_path):
    rows = [(AFTER, 30, 8, [[1, 3], [2, 19]]), (WALK, 3, 3, []), (method("clone"), 19, 19, [])]

    report = report_of(tmp_path, calls("gap", 30, *rows), after_ms=10, after="after_step")

    text = report["findings"][0]["fixes"][0]["text"]
    assert "torch._foreach_lerp_ where it averages weights" in text
    assert "torch._foreach_copy_ into tensors that are kept where it copies them" in text


def _with_a_callback(
    folder: Path,
    place: int | None,
    *rows: tuple[Function, float, float, list[list[float]]],
    name: str = "callback: Average.on_train_batch_end",
) -> Measurements:
    """Steps of 20 ms, after which a framework's callback, or what else it names so, takes 10; three of these gaps were timed."""
    events = Events(folder)
    events.loader()
    for k in range(100):
        end = events.step(k * 30.5, batch=k, length=20)
        events.span(end + 0.1, end + 10.1, name, line=place)
    events.trainer.lines.append(calls("gap", 30, *rows))
    return measure_recording(events.timeline())


def _named_in_bodies(folder: Path, name: str, stage: str, named_ms: float, *notes: dict[str, Any]) -> Measurements:
    """Steps of 40 ms, so many of them, before the backward, in what a framework names for a function at line 90 of the script."""
    events = Events(folder)
    events.loader()
    for k in range(100):
        begin = k * 40.0
        events.wait(begin, begin + 1, k)
        events.span(begin + 2, begin + 2 + named_ms, name, stage, line=90)
        events.backward(begin + 32, begin + 38)
        events.update(begin + 38, begin + 40)
    events.trainer.lines += notes
    return measure_recording(events.timeline())


@pytest.mark.parametrize(("named_ms", "fires"), [(20, True), (0.5, False)])
def test_metrics_that_a_module_logs_are_found_and_are_no_callback(tmp_path, named_ms, fires):
    m = _named_in_bodies(tmp_path, "metrics: self.log in Net.training_step", "output", named_ms)

    judged = per_step_metrics.judge(m)

    assert slow_callback.judge(m) is None
    assert isinstance(judged, Judged) is fires
    if isinstance(judged, Judged):
        assert judged.finding.claims == (Part("output", PartKind.METRICS, "self.log in Net.training_step", CodePlace("train.py", 90)),)
        assert judged.finding.gain.predicted == pytest.approx(40 / (40 - 20 * 49 / 50), rel=0.02)


@pytest.mark.parametrize(("named_ms", "fires"), [(20, True), (0.5, False)])
def test_a_transform_of_the_batch_is_input_that_is_made_on_the_training_thread(tmp_path, named_ms, fires):
    m = _named_in_bodies(tmp_path, "transform: Data.on_after_batch_transfer", "preprocess", named_ms)

    judged = beside_the_model.judge(m)

    assert isinstance(judged, Judged) is fires
    if isinstance(judged, Judged):
        assert (judged.finding.stage, judged.finding.share) == ("preprocess", pytest.approx(0.5, rel=0.05))
        assert judged.finding.claims == (Part("preprocess", PartKind.TRANSFORM, "Data.on_after_batch_transfer", CodePlace("train.py", 90)),)


def test_a_function_of_timed_bodies_keeps_its_share_beside_what_is_named_in_them(tmp_path):
    # 9 of the 31 ms of a body without backward and optimizer, of which 20 are a callback's.
    body = calls("body", 117, (LOSS, 27, 27, []), (BACKWARD, 18, 18, []), (OPTIMIZER, 6, 6, []))

    m = _named_in_bodies(tmp_path, "callback: Plot.on_before_backward", "output", 20, body, called(gradient=9))
    judged = beside_the_model.judge(m)

    assert isinstance(judged, Judged)
    assert judged.finding.share == pytest.approx(9 / 40, rel=0.05)


AVERAGED: Function = ("/usr/lib/python3.11/site-packages/lightning/pytorch/callbacks/average.py", "Average.on_train_batch_end", 1)
OWN_AVERAGE: Function = (SCRIPT, "Average.on_train_batch_end", 1)
UPDATE: Function = ("/usr/lib/python3.11/site-packages/torch/optim/swa_utils.py", "AveragedModel.update_parameters", 1)


@pytest.mark.parametrize(
    ("function", "place", "called", "says"),
    [
        (AVERAGED, None, UPDATE, "its update_every_n_steps"),
        (OWN_AVERAGE, 1, UPDATE, "torch._foreach_lerp_"),
        (AVERAGED, None, PILLOW, "background thread"),
    ],
    ids=["the framework's", "the script's", "no average"],
)
def test_a_frameworks_callback_that_averages_weights_is_not_sent_aside(tmp_path, function, place, called, says):
    m = _with_a_callback(tmp_path, place, (function, 30, 1, [[1, 29]]), (called, 29, 29, []))

    judged = slow_callback.judge(m)

    assert isinstance(judged, Judged)
    texts = [fix.text for fix in judged.finding.fixes]
    assert says in texts[0]
    assert any("background thread" in text for text in texts) is (says == "background thread")


JOIN: Function = ("<built-in>", "method 'join' of 'str' objects", 0)
TABLE: Function = (SCRIPT, "build.<locals>.TableLogger.log_metrics", 69)
FORMAT: Function = (SCRIPT, "build.<locals>.TableLogger.format_table", 66)


@pytest.mark.parametrize(
    ("rows", "aside", "less"),
    [
        (
            [(TABLE, 30, 1, [[1, 29]]), (FORMAT, 29, 0, [[2, 29]]), (JOIN, 29, 29, [])],
            KEPT_LOCK,
            "do less in build.<locals>.TableLogger.format_table: less text (str.join holds",
        ),
        ([(TABLE, 30, 1, [[1, 29]]), (FSYNC, 29, 29, [])], EITHER, "let TableLogger gather what it writes"),
        ([(TABLE, 30, 1, [[1, 29]]), (PRINT, 29, 29, [])], EITHER, "hand TableLogger fewer values (print holds 97 % of it)"),
        ([(PILLOW, 30, 30, [])], EITHER, "hand TableLogger fewer values, and ask it to flush less often"),
    ],
    ids=["text", "files", "lines", "not timed"],
)
def test_a_logger_of_the_scripts_own_is_advised_by_what_its_method_does(tmp_path, rows, aside, less):
    """The ledger knows a logger by its class, timed calls by the method."""
    m = _with_a_callback(tmp_path, 69, *rows, name="logging: TableLogger")

    judged = slow_callback.judge(m)

    assert isinstance(judged, Judged)
    seldom, other = [fix.text for fix in judged.finding.fixes]
    assert seldom.endswith(aside)
    assert other.startswith(less)
    named = [row.value for row in judged.finding.evidence if row.name == "most of it in"]
    assert named == ([FORMAT[1]] if FORMAT in [row[0] for row in rows] else [])


def test_a_function_is_known_behind_its_decorator(tmp_path):
    rows = [(NO_GRAD, 30, 1, [[1, 29]]), (AFTER, 29, 2, [[2, 3], [3, 24]]), (WALK, 3, 3, []), (method("lerp_"), 24, 24, [])]

    report = report_of(tmp_path, calls("gap", 30, *rows), after_ms=10, after="after_step")

    assert [row["value"] for row in report["findings"][0]["evidence"] if row["name"] == "most of it in"] == ["Tensor.lerp_"]


def test_a_few_log_lines_are_not_worth_a_finding(tmp_path):
    report = report_of(tmp_path, after_step(LOGGING, 0.9), after_ms=0.4, after="after_step")

    assert rules_in(report) == []


def test_a_timed_function_is_named_though_no_stack_was_taken_in_it(tmp_path):
    report = report_of(tmp_path, after_step(PILLOW, 0.9), after_ms=10, after="something_else")

    assert "after_step" in report["findings"][0]["title"]
