"""Rules about calls and lines that were timed inside the steps: loops in Python, and what is no part of the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from judged import answer_of, finding, named, values
from made_measurements import MS, SCRIPT, changed, measurements, per_step
from made_timed_calls import Function, Note, calls, in_bodies
from slowstep.analyses.compute.before_update import BeforeUpdate
from slowstep.analyses.compute.own_update import OwnUpdate
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import diagnose
from slowstep.parts import BODY, CodePlace, Part, PartKind
from slowstep.parts import OPTIMIZER as UPDATE

HOOK, LOOP = "beside-the-model", "python-between-operations"
LOSS: Function = (SCRIPT, "weigh_pixels", 60)
BACKWARD: Function = ("/opt/slowstep/record/hooks/torch_backward.py", "_timed.<locals>.backward", 60)
OPTIMIZER: Function = ("/usr/lib/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper", 1)
OUR_HOOK: Function = ("/opt/slowstep/record/hooks/torch_module.py", "_recorded.<locals>.call", 30)
GAUSS: Function = ("/usr/lib/python3.11/random.py", "Random.gauss", 1)
LAYER: Function = ("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1)
CDIST: Function = ("/usr/lib/python3.11/site-packages/torch/functional.py", "cdist", 1)
# A body of 20 ms, of which forward and loss take 12: 9 of them in the function of the user's.
USUAL = ((BACKWARD, 21, 21, []), (OPTIMIZER, 3, 3, []))
STEP_MS = 19.5


def body(*rows: Any) -> Note:
    """Three bodies of 20 ms with these calls."""
    return calls("body", 60, *rows)


TIMED = body((LOSS, 27, 27, []), *USUAL)


def lines(count: int, each_us: float, function: Function = LOSS) -> Note:
    """A line of a function that runs so often in a body."""
    file, name, first = function
    rows = [{"file": file, "function": name, "first_line": first, "line": first + 4, "count": count, "ns": int(count * each_us * 1000)}]
    return {"kind": "lines", "of": "body", "complete": True, "lines": rows}


def called(**counts: int) -> Note:
    """LOSS's lines, each a long operation, and what its calls in one body were."""
    file, name, first = LOSS
    usual = {"calls": 9, "hooks": 0, "inside": 0, "gradient": 9, "nothing": 0, "nodes": 0, "of_nodes": 40}
    return {**lines(36, 250), "functions": [{"file": file, "function": name, "first_line": first, **usual, **counts}]}


def test_a_loop_in_python_is_named_with_its_line_and_its_gain():
    m = in_bodies(TIMED, lines(5000, 0.4))

    found = finding(LOOP, m)
    verdict = diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", LOOP)
    assert (values(found)["function"], values(found)["runs of that line"], found.evidence[0].where) == ("weigh_pixels", 5000, "train.py:64")
    assert found.gain.predicted == pytest.approx(STEP_MS / (STEP_MS - 9 * 0.95), rel=0.01)


def test_a_loop_of_the_scripts_own_optimizer_claims_time_of_updates():
    own: Function = (SCRIPT, "Own.step", 6)
    note = body((own, 18, 18, []), (OPTIMIZER, 20, 2, [[0, 18]]))

    m = in_bodies(note, lines(40, 7.0, own), ledger={UPDATE: 5.0})
    found = finding(LOOP, m)

    assert (found.claims, found.gain.predicted) == ((UPDATE,), None)
    assert found.share == pytest.approx(0.9 * m.ledger.share_of(UPDATE), rel=0.01)


OWN: Function = (SCRIPT, "Own.step", 6)
OF_SMALL = OwnUpdate(name="Own.step", place="train.py:10", share=0.6, stacks=60, elements=576.0, tensors=40, shapes=1)


def of_update(ms: float, *, each_us: float = 7.0, **change: Any) -> Measurements:
    """An update of so many ms, of which a loop over 40 tensors takes nine tenths."""
    note = body((OWN, 18, 18, []), (OPTIMIZER, 20, 2, [[0, 18]]))
    return in_bodies(note, lines(40, each_us, OWN), ledger={UPDATE: ms}, own_update=replace(OF_SMALL, **change))


@pytest.mark.parametrize(
    ("ms", "left"), [(0.9, 0.43), (1.6, 0.2074), (12.0, 0.10)], ids=["20 us a tensor", "36 us, which nothing was measured of", "270 us"]
)
def test_what_an_update_of_small_tensors_gains_at_once_is_what_was_measured(ms, left):
    m = of_update(ms)

    gain = finding(LOOP, m).gain
    share = 0.9 * m.ledger.share_of(UPDATE)
    assert gain.predicted == pytest.approx(1 / (1 - share * (1 - left)), rel=0.01)
    assert gain.low < gain.predicted < gain.high


def test_a_loop_over_small_tensors_that_holds_most_of_the_step_is_the_bottleneck():
    verdict = diagnose(of_update(24.0)).verdict

    assert (verdict.state, verdict.rule) == ("bottleneck", LOOP)


def test_an_update_whose_gain_is_predicted_leaves_no_doubt_of_what_it_takes_at_once():
    told, untold = (diagnose(of_update(4.0, **change)).verdict.reason for change in ({}, {"shapes": None}))

    assert untold is not None
    assert untold.code == "own-update"
    assert told is None or told.code != "own-update"


@pytest.mark.parametrize(
    "change", [{"elements": 9216.0}, {"elements": None}, {"shapes": None}, {"shapes": 40}, {"tensors": 8}, {"tensors": None}], ids=str
)
def test_of_other_updates_only_the_most_that_they_gain_is_known(change):
    m = of_update(12.0, **change)

    found, verdict = finding(LOOP, m), diagnose(m).verdict
    assert found.gain.predicted is None
    assert found.gain.headroom == pytest.approx(1 / (1 - found.share))
    assert verdict.state == "undetermined"


def test_a_loop_whose_lines_hold_operations_that_take_long_is_not_predicted():
    m = of_update(12.0)
    loop = m.compute.work.loop
    assert loop is not None

    found = finding(LOOP, changed(m, loop=replace(loop, short_share=0.8)))

    assert found.gain.predicted is None
    assert found.gain.headroom is not None


def test_tensors_of_many_shapes_gain_less_at_once():
    gains = [finding(LOOP, of_update(12.0, shapes=shapes)).gain.predicted for shapes in (1, 10)]

    assert 1.1 < gains[1] < gains[0]


@pytest.mark.parametrize(("library", "is_named"), [(GAUSS, True), (LAYER, False)], ids=["a library's", "a layer of the model"])
def test_what_a_loop_calls_in_every_round_is_its_own(library, is_named):
    m = in_bodies(body((LOSS, 27, 1, [[3, 26]]), *USUAL, (library, 26, 26, [])), lines(5000, 0.4))

    if is_named:
        assert finding(LOOP, m).share > 0.3
    else:
        assert answer_of(LOOP, m) is None


@pytest.mark.parametrize(
    ("operation", "times", "share"),
    [(CDIST, 1500, 0.45), (CDIST, 300, 0.2), (CDIST, 3, 0.2), (LAYER, 1500, 0.2)],
    ids=["short operations", "operations that take longer than their dispatch", "a few operations", "layers"],
)
def test_operations_of_torch_are_a_loops_where_they_take_no_longer_than_their_dispatch(operation, times, share):
    note = body((LOSS, 27, 13, [[3, 14]]), *USUAL, (operation, 14, 14, []))
    note["functions"][3]["calls"] = times

    assert finding(LOOP, in_bodies(note, lines(5000, 0.4))).share == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("bodies", [3, 0], ids=["timed", "not timed"])
def test_steps_of_two_optimizers_are_healthy_only_where_they_were_looked_into(bodies):
    m = measurements(bodies_timed=bodies)
    diagnosis = diagnose(changed(m, all_updates=pl.concat([m.trainer.all_updates] * 2)))

    assert diagnosis.verdict.state == ("healthy" if bodies else "undetermined")
    unjudged = [(row.rule, row.reason.code) for row in diagnosis.not_judged if row.rule == LOOP]
    assert unjudged == ([] if bodies else [(LOOP, "calls-of-several-optimizers")])


def test_a_comprehension_has_the_name_of_its_function():
    inner: Function = (SCRIPT, "weigh_pixels.<locals>.<listcomp>.<listcomp>", 60)

    found = finding(LOOP, in_bodies(body((inner, 27, 27, []), *USUAL), lines(5000, 0.4, inner)))

    assert values(found)["function"] == "weigh_pixels"


TOP: Function = (SCRIPT, "<listcomp>", 24)


def counted_at_the_top(*own_lines: tuple[int, int]) -> Note:
    """Lines of a comprehension at the top level of a script, and (line, us) of that level's own."""
    top = {"file": SCRIPT, "function": "<module>", "first_line": 1, "count": 1}
    rows: list[Note] = [{"file": SCRIPT, "function": "<listcomp>", "first_line": 24, "line": 24, "count": 5000, "ns": 2_000_000}]
    rows += [{**top, "line": line, "ns": us * 1000} for line, us in own_lines]
    looked = {"calls": 2, "hooks": 0, "inside": 0, "gradient": 2, "nothing": 0, "nodes": 0, "of_nodes": 10}
    functions = [{"file": SCRIPT, "function": "<listcomp>", "first_line": 24, **looked}]
    return {"kind": "lines", "of": "body", "complete": False, "lines": rows, "functions": functions}


@pytest.mark.parametrize(
    ("left_ms", "layer", "others", "share"),
    [
        (9, LAYER, (), 18 / 36),
        (9, LAYER, ((20, 100),), 13.5 / 36),
        (9, OUR_HOOK, (), 9 / 36),
        (12, LAYER, (), 9 / 36),
    ],
    ids=["all on its line", "half of it on another line", "no module is called", "more than the loop itself"],
)
def test_what_makes_a_tensor_of_a_top_level_comprehension_counts_with_it(left_ms, layer, others, share):
    """The script had begun before the timed body: what its line does beside the comprehension has no row of its own."""
    forward_ms = 36 - 9 - left_ms
    note = body((TOP, 9, 9, []), (layer, forward_ms, forward_ms, []), *USUAL)

    m = in_bodies(note, counted_at_the_top((24, 100), *others))

    (found,) = diagnose(m).findings
    assert (found.rule, found.also, values(found)["line"]) == (LOOP, (HOOK,), "train.py:24")
    assert found.share / m.ledger.share_of(BODY) == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize(
    "note",
    [lines(12, 800), lines(5000, 60), lines(19, 0.4), called(calls=300, gradient=300, nodes=300) | lines(5000, 0.4)],
    ids=["a dozen long operations", "operations that take longer than their dispatch", "too few runs", "many calls of a few lines"],
)
def test_a_function_that_calls_long_operations_is_no_loop_in_python(note):
    assert answer_of(LOOP, in_bodies(TIMED, note)) is None


def test_a_hook_that_only_looks_is_named_and_its_gain_predicted():
    m = in_bodies(TIMED, called(hooks=9, inside=9, nothing=9, nodes=3))

    found = finding(HOOK, m)
    verdict = diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", HOOK)
    assert (values(found)["function"], found.evidence[0].where) == ("weigh_pixels", "train.py:60")
    assert found.gain.predicted == pytest.approx(STEP_MS / (STEP_MS - 9), rel=0.01)
    assert found.gain.low < found.gain.predicted


MODULE: Function = ("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1700)
WATCH: Function = (SCRIPT, "Watch.hook", 40)
BLOCK: Function = (SCRIPT, "Block.forward", 45)


@pytest.mark.parametrize(
    ("caller", "counts", "is_hook"),
    [(WATCH, {}, True), (BLOCK, {}, False), (WATCH, {"nodes": 1}, False), (WATCH, {"nothing": 8}, False)],
    ids=["called by a hook", "called by a forward", "it adds to the graph", "it gives something"],
)
def test_what_a_hook_calls_to_look_is_a_part_of_it(caller, counts, is_hook):
    note = body((LOSS, 27, 27, []), (caller, 27.3, 0.3, [[0, 27]]), (MODULE, 27.4, 0.1, [[1, 27.3]]), *USUAL)
    m = in_bodies(note, called(**{"inside": 9, "nothing": 9, **counts}))

    assert (answer_of(HOOK, m) is not None) is is_hook
    if is_hook:
        assert values(finding(HOOK, m))["function"] == "weigh_pixels"


BETWEEN: Function = (SCRIPT, "Watch.between", 43)


@pytest.mark.parametrize(
    "rows",
    [
        # It calls itself; two that a hook calls both call it.
        [(LOSS, 27, 26, [[0, 1]]), (WATCH, 27.3, 0.3, [[0, 27]]), (MODULE, 27.4, 0.1, [[1, 27.3]])],
        [(LOSS, 27, 27, []), (BETWEEN, 14, 0, [[0, 14]]), (WATCH, 27.3, 0.3, [[0, 13], [1, 14]]), (MODULE, 27.4, 0.1, [[2, 27.3]])],
    ],
    ids=["recursion", "two ways"],
)
def test_however_a_hook_comes_to_what_looks_it_is_a_part_of_it(rows):
    m = in_bodies(body(*rows, *USUAL), called(inside=9, nothing=9))

    assert answer_of(HOOK, m) is not None


def test_what_no_graph_knows_is_named_and_not_called_healthy():
    diagnosis = diagnose(in_bodies(TIMED, called()))

    (found,) = diagnosis.findings
    assert (found.rule, found.gain.predicted) == (HOOK, None)
    assert (diagnosis.verdict.state, diagnosis.verdict.reason.values["rule"]) == ("undetermined", HOOK)


@pytest.mark.parametrize(
    "counts",
    [
        {"nodes": 1},
        {"gradient": 0},
        {"gradient": 8},
        {"inside": 9},
        {"hooks": 9, "inside": 9, "nothing": 8},
        {"hooks": 8, "inside": 9, "nothing": 9},
    ],
    ids=["a loss", "a teacher", "a teacher now and then", "part of a module", "a hook that changes", "now and then no hook"],
)
def test_what_is_the_models_own_is_not_beside_it(counts):
    assert answer_of(HOOK, in_bodies(TIMED, called(**counts))) is None


@pytest.mark.parametrize(
    ("functions", "before"),
    [({(SCRIPT, 60)}, True), ({(SCRIPT, 50), (SCRIPT, 60)}, True), ({(SCRIPT, 50)}, False), (None, False)],
    ids=["itself", "called there", "another one", "nothing"],
)
def test_what_runs_between_backward_and_update_makes_no_input(functions, before):
    m = in_bodies(TIMED, called(gradient=9))
    known = None if functions is None else BeforeUpdate(name="clip", share=0.4, stacks=60, functions=frozenset(functions))

    found = finding(HOOK, changed(m, before_update=known))

    assert any("loader" in fix.text for fix in found.fixes) is not before
    assert found.gain.predicted is None


TOKENIZER: Function = ("/usr/lib/python3.11/site-packages/transformers/tokenization.py", "Tokenizer.__call__", 2800)
METRIC: Function = ("/usr/lib/python3.11/site-packages/sklearn/metrics/_classification.py", "f1_score", 1000)
TENSOR: Function = ("/usr/lib/python3.11/site-packages/torch/autograd/__init__.py", "backward", 240)


def looked_at(function: Function, **counts: int) -> Note:
    """What the calls of a library's function were, in one body."""
    file, name, first = function
    usual = {"calls": 1, "hooks": 0, "inside": 0, "gradient": 1, "nothing": 0, "nodes": 0, "of_nodes": 40, "early": 0}
    function_of = {"file": file, "function": name, "first_line": first}
    return {"kind": "lines", "of": "body", "complete": True, "lines": [], "functions": [function_of | usual | counts]}


def test_what_a_library_makes_of_a_batch_before_the_model_begins_is_input():
    m = in_bodies(body((TOKENIZER, 18, 2, []), *USUAL), looked_at(TOKENIZER, early=1), workers=1)

    found = finding(HOOK, m)
    verdict = diagnose(m).verdict
    assert (found.stage, found.claims, values(found)["function"]) == ("preprocess", (BODY,), "Tokenizer.__call__")
    assert found.share == pytest.approx(0.5 * m.ledger.share_of(BODY), rel=0.01)
    assert (verdict.state, verdict.stage) == ("bottleneck", "preprocess")
    assert 1 < found.gain.low < found.gain.predicted <= 1 / (1 - found.share) * 1.001


def test_beside_an_accelerator_what_comes_before_the_model_may_be_copied_there_and_is_no_workers():
    m = in_bodies(TIMED, called(early=9), workers=1, device="cuda")

    beside = answer_of(HOOK, m)
    assert beside is None or (beside.finding.stage, beside.finding.gain.predicted) == ("compute", None)


def test_what_a_library_computes_behind_the_models_begin_is_output():
    found = finding(HOOK, in_bodies(body((METRIC, 18, 2, []), *USUAL), looked_at(METRIC)))

    assert (found.stage, found.gain.predicted) == ("output", None)


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        ([(TOKENIZER, 18, 2, [])], {"nodes": 1}),
        ([(TOKENIZER, 18, 2, [])], {"inside": 1}),
        ([(TOKENIZER, 18, 2, [])], {"gradient": 0}),
        ([(METRIC, 18, 2, [])], {"late": 1}),
        ([(TOKENIZER, 18, 2, [[1, 16]]), (MODULE, 16, 16, [])], {"early": 1}),
        ([(TOKENIZER, 18, 2, [[1, 16]]), (TENSOR, 16, 16, [])], {}),
        ([(("/usr/lib/python3.11/queue.py", "Queue.get", 154), 18, 2, [])], {}),
    ],
    ids=["a loss", "in a module", "without gradients", "clipping", "it calls a model", "it calls backward", "it waits for a thread"],
)
def test_what_a_library_does_of_the_steps_own_work_is_not_beside_it(rows, counts):
    m = in_bodies(body(*rows, *USUAL), looked_at(rows[0][0], **counts))

    assert answer_of(HOOK, m) is None


@pytest.mark.parametrize(
    ("counts", "stage"),
    [
        ({"early": 9}, "preprocess"),
        ({"early": 9, "gradient": 0}, "preprocess"),
        ({"early": 8}, "compute"),
        ({"early": 9, "nothing": 9}, "compute"),
    ],
    ids=["with gradients", "without", "now and then", "it gives nothing"],
)
def test_a_function_of_the_users_that_gives_something_before_the_model_begins_makes_input(counts, stage):
    assert finding(HOOK, in_bodies(TIMED, called(**counts))).stage == stage


def test_where_workers_find_no_cores_what_input_gains_in_them_is_unknown():
    m = in_bodies(TIMED, called(early=9), workers=0, cores=2.0, machine={"threads": 2, "tree_cores": 2.0})

    found = finding(HOOK, m)
    assert (found.stage, found.gain.predicted) == ("preprocess", None)
    assert found.gain.headroom == pytest.approx(1 / (1 - found.share), rel=0.01)


def test_what_a_function_beside_the_model_has_modules_do_is_the_models():
    """A frozen model whose features a function asks for: all but its own line is spent in modules."""
    module: Function = ("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1700)

    assert answer_of(HOOK, in_bodies(body((LOSS, 27, 0.3, [[1, 26.7]]), (module, 26.7, 26.7, []), *USUAL), called())) is None


def gain(nodes: int, *, forward_share: float, graph: int | None = 20) -> Any:
    """Of a loop that made so many of 40 nodes that were looked at, where the step's graph has so many."""
    note = called(calls=1, gradient=1, nodes=nodes) | {"lines": lines(5000, 0.4)["lines"]}
    return finding(LOOP, in_bodies(TIMED, note, forward_share=forward_share, graph_nodes=graph)).gain


def test_the_backward_of_a_loop_is_taken_from_it_by_what_other_layers_leave():
    few_nodes, many = gain(0, forward_share=1 / 3), gain(38, forward_share=1 / 3)

    assert few_nodes.predicted < many.predicted < few_nodes.predicted * 3
    assert many.low == pytest.approx(few_nodes.low)
    assert many.high > many.predicted


@pytest.mark.parametrize(("graph", "gains_more"), [(1000, True), (20, False), (None, False)])
def test_the_backward_of_a_loop_of_small_operations_is_no_less_than_such_loops_take(graph, gains_more):
    # Twice the rest of the forward is all of the backward: nothing is left for the loop by what other layers take.
    without, all_nodes = (gain(nodes, forward_share=0.6, graph=graph).predicted for nodes in (0, 38))

    assert (all_nodes > 1.3 * without) == gains_more


def test_what_timing_has_slowed_in_a_loop_is_taken_out_again():
    slowed = {**calls("body", 87, (LOSS, 54, 54, []), *USUAL), "slowdown": 4.0}

    plain, found = (finding(LOOP, in_bodies(note, lines(5000, 0.4))).gain for note in (TIMED, slowed))

    assert found.predicted == pytest.approx(plain.predicted, rel=0.01)
    assert found.high > plain.high


def _named_in_bodies(part: Part, named_ms: float, **changes: Any) -> Measurements:
    """Steps of 40 ms, so many of them in what a framework names before the backward."""
    m = measurements(ledger={part: named_ms, BODY: 26.5 - named_ms}, **changes)
    return changed(m, in_bodies_ns=per_step(named_ms))


@pytest.mark.parametrize(("named_ms", "fires"), [(20, True), (0.5, False)])
def test_metrics_that_a_module_logs_are_found_and_are_no_callback(named_ms, fires):
    part = Part("output", PartKind.METRICS, "self.log in Net.training_step", CodePlace("train.py", 90))

    m = _named_in_bodies(part, named_ms)

    assert answer_of("slow-callback", m) is None
    assert (answer_of("per-step-metrics", m) is not None) is fires
    if fires:
        found = finding("per-step-metrics", m)
        assert found.claims == (part,)
        assert found.gain.predicted == pytest.approx(40 / (40 - 20 * 49 / 50), rel=0.02)


@pytest.mark.parametrize(("beside_ms", "goes_with_them"), [(5.0, True), (15.0, False)])
def test_what_a_hook_that_mostly_logs_does_beside_is_made_to_be_logged(beside_ms, goes_with_them):
    place = CodePlace("train.py", 90)
    logged = Part("output", PartKind.METRICS, "self.log in Net.on_after_backward", place)
    beside = Part("output", PartKind.CALLBACK, "Net.on_after_backward", place)
    m = measurements(ledger={logged: 10.0, beside: beside_ms, BODY: 16.5 - beside_ms})

    found = finding("per-step-metrics", m)

    assert found.claims == ((logged, beside) if goes_with_them else (logged,))
    spared_ms = 10 + beside_ms * goes_with_them
    assert found.gain.predicted == pytest.approx(40 / (40 - spared_ms * 49 / 50), rel=0.02)


@pytest.mark.parametrize(("named_ms", "fires"), [(20, True), (0.5, False)])
def test_a_transform_of_the_batch_is_input_that_is_made_on_the_training_thread(named_ms, fires):
    part = Part("preprocess", PartKind.TRANSFORM, "Data.on_after_batch_transfer", CodePlace("train.py", 90))

    m = _named_in_bodies(part, named_ms)

    assert (answer_of(HOOK, m) is not None) is fires
    if fires:
        found = finding(HOOK, m)
        assert (found.stage, found.share, found.claims) == ("preprocess", pytest.approx(0.5, rel=0.05), (part,))


def test_a_function_of_timed_bodies_keeps_its_share_beside_what_is_named_in_them():
    # 9 of the 31 ms of a body without backward and optimizer, of which 20 are a callback's.
    note = calls("body", 117, (LOSS, 27, 27, []), (BACKWARD, 18, 18, []), (OPTIMIZER, 6, 6, []))
    beside = in_bodies(note, called(gradient=9)).compute.work.outside_model
    part = Part("output", PartKind.CALLBACK, "Plot.on_before_backward", CodePlace("train.py", 90))
    m = changed(measurements(ledger={part: 20.0, BODY: 11.0}, work={"outside_model": beside}), in_bodies_ns=per_step(20.0))

    found = finding(HOOK, m)

    assert found.share * np.mean(m.step_ns) == pytest.approx(9 * MS, rel=0.05)
    assert HOOK in named(m)


LSTM: Function = ("/usr/lib/python3.11/site-packages/torch/nn/modules/rnn.py", "LSTM.forward", 1080)
ROLL: Function = (SCRIPT, "Agent.evaluate", 50)


def _by_places(times: int, ms: float) -> Measurements:
    """27 of 33 ms of a body are a recurrent layer's, or so many, which is called so often."""
    note = body((ROLL, 27.5, 0.3, [[1, ms]]), (MODULE, ms, 0, [[2, ms]]), (LSTM, ms, ms, []), *USUAL)
    rows = [{**row, "calls": row["calls"] * times if row["function"] == LSTM[1] else row["calls"]} for row in note["functions"]]
    return in_bodies({**note, "functions": rows})


@pytest.mark.parametrize(("times", "ms", "is_open"), [(64, 27, True), (4, 27, False), (64, 9, False)], ids=["", "seldom", "a little"])
def test_a_recurrent_layer_that_is_called_place_by_place_is_not_called_healthy(times, ms, is_open):
    verdict = diagnose(_by_places(times, ms)).verdict

    assert (verdict.reason is not None and verdict.reason.code == "recurrence-by-places") is is_open
    if is_open:
        assert verdict.state == "undetermined"
        assert (verdict.reason.values["layer"], verdict.reason.values["calls"]) == ("LSTM", 64)
        assert verdict.reason.values["caller"].values == {"name": "Agent.evaluate", "place": "train.py:50"}
