"""Rules about functions that were timed after updates: what they are called, which rule names them, what is advised and what it gains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judged import finding, named, values
from made_measurements import SCRIPT, changed, every, measurements
from made_parts import function_part, lines_part
from made_timed_calls import MS, STACKS, Function, Note, after_update, calls, often, timeline_of
from slowstep.analyses.after_update.activities import find_activities
from slowstep.analyses.after_update.timed_gaps import find_timed_gaps
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.over_time import OccasionalEvent
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.evidence.after_update import activity_of, timed_functions
from slowstep.findings import Finding
from slowstep.frameworks._known import does_for_less
from slowstep.parts import CodePlace, Part, PartKind

CALLBACK, LOGS, METRICS = "slow-callback", "chatty-logging", "per-step-metrics"
PACKAGES = "/usr/lib/python3.11/site-packages"
TORCH = f"{PACKAGES}/torch"
AFTER: Function = (SCRIPT, "after_step", 80)
LOGGING: Function = ("/usr/lib/python3.11/logging/__init__.py", "Logger.info", 1)
SKLEARN: Function = (f"{PACKAGES}/sklearn/metrics/_ranking.py", "roc_auc_score", 1)
PILLOW: Function = (f"{PACKAGES}/PIL/Image.py", "Image.save", 1)
MODULE = f"{TORCH}/nn/modules/module.py"
FSYNC: Function = ("<built-in>", "built-in method posix.fsync", 0)
PRINT: Function = ("<built-in>", "built-in method builtins.print", 0)
OPEN: Function = ("<built-in>", "built-in method io.open", 0)
PART = function_part("output", "after_step", "train.py", 80)
# Steps of 29.5 ms, of which 10 are after the update: where that is once in 50 steps they are as much faster.
TRUTH = 29.5 / (29.5 - 10 * 49 / 50)
# And where the step after such a pause is 0.64 ms longer for it, as is assumed.
WITH_STEP_AFTER = 29.5 / (29.5 - 10.64 * 49 / 50)


def in_function(function: Function, share: float) -> Note:
    """Three gaps of 10 ms, all in `after_step`, which spends a share in another function."""
    return calls("gap", 30, (AFTER, 30, 30 * (1 - share), [[1, 30 * share]]), (function, 30 * share, 30 * share, []))


def first(m: Measurements) -> Finding:
    """The finding that leads."""
    return diagnose(m).findings[0]


def fixes(found: Finding) -> list[str]:
    """What it advises."""
    return [fix.text for fix in found.fixes]


@pytest.mark.parametrize(("called", "rule"), [(LOGGING, LOGS), (PRINT, LOGS), (SKLEARN, METRICS)], ids=str)
def test_what_a_function_after_the_update_does_is_said_and_its_gain_predicted(called, rule):
    m = after_update(in_function(called, 0.9))

    found = first(m)
    assert (diagnose(m).verdict.state, found.rule, found.also) == ("bottleneck", rule, (CALLBACK,))
    assert values(found)["function"] == "after_step"
    assert found.gain.predicted == pytest.approx(WITH_STEP_AFTER, rel=0.01)
    assert found.gain.low <= TRUTH <= found.gain.high


@pytest.mark.parametrize(("called", "share"), [(LOGGING, 0.3), (SKLEARN, 0.3), (PILLOW, 0.9)], ids=str)
def test_a_function_that_mostly_does_something_else_is_a_slow_callback(called, share):
    assert named(after_update(in_function(called, share))) == [CALLBACK]


NUMPY: Function = ("<built-in>", "method 'reduce' of 'numpy.ufunc' objects", 0)


@pytest.mark.parametrize(("name", "rule"), [("after_step", CALLBACK), ("cluster_features", CALLBACK), ("auc_per_class", METRICS)])
def test_what_is_computed_with_arrays_is_metrics_only_in_a_function_that_is_named_so(name, rule):
    # After the update runs after_step, which may call the function.
    inner: Function = (SCRIPT, name, 90)
    rows = [(inner, 28, 2, [[1, 26]]), (NUMPY, 26, 26, [])]
    if name != "after_step":
        rows = [(AFTER, 30, 2, [[1, 28]]), (inner, 28, 2, [[2, 26]]), (NUMPY, 26, 26, [])]

    assert first(after_update(calls("gap", 30, *rows))).rule == rule


@pytest.mark.parametrize(("module", "rule"), [("metrics/_ranking.py", METRICS), ("cluster/_kmeans.py", CALLBACK)], ids=str)
def test_of_a_library_for_more_than_metrics_its_metrics_count(module, rule):
    package = f"{PACKAGES}/sklearn"
    wrapper: Function = (f"{package}/utils/_param_validation.py", "validate_params.<locals>.decorator.<locals>.wrapper", 1)
    rows = [(wrapper, 29, 1, [[1, 28]]), ((f"{package}/{module}", "work", 1), 28, 28, [])]

    assert first(after_update(calls("gap", 30, *rows), line=34)).rule == rule


def test_of_a_model_that_is_called_the_class_is_named():
    note = calls(
        "gap", 30, (AFTER, 30, 1, [[1, 29]]), ((MODULE, "Module._wrapped_call_impl", 1774), 29, 0, [[2, 29]]),
        ((MODULE, "Module._call_impl", 1782), 29, 0, [[3, 29], [4, 20]]),
        ((f"{TORCH}/nn/modules/container.py", "Sequential.forward", 248), 29, 9, [[1, 20]]),
        ((f"{TORCH}/nn/modules/linear.py", "Linear.forward", 130), 20, 20, []),
    )  # fmt: skip

    assert values(first(after_update(note)))["most of it in"] == "Sequential"


@pytest.mark.parametrize(("called", "advised"), [(FSYNC, "write it every k steps; no flush or fsync"), (PILLOW, "fewer images")], ids=str)
def test_what_mostly_writes_to_a_file_is_advised_to_write_less_often(called, advised):
    texts = fixes(first(after_update(in_function(called, 0.7))))

    assert advised in texts[1]
    assert "holds 70 % of it" in texts[1]


@pytest.mark.parametrize("outgrown", [False, True], ids=["steady", "grown"])
def test_what_holds_most_of_a_callback_that_grows_is_not_said_by_early_calls(outgrown):
    """A JSON history begins empty: while it was, its opening was "98 % of it"."""
    m = after_update(in_function(OPEN, 0.9), outgrown=frozenset({PART} if outgrown else ()))

    (entry,) = timed_functions(m)

    assert (entry.within is None) is (activity_of(m, entry.part) is None) is outgrown


@pytest.mark.parametrize(
    ("name", "also_there", "known"),
    [("Table.after_step", (), True), ("Sub.on_step_end", (), True), ("Sub.on_step_end", ("<lambda>",), False), (None, (), False)],
    ids=["a class in a function", "of a base class", "several functions", "a line of the loop"],
)
def test_what_a_framework_names_by_its_instance_is_known_by_its_place(name, also_there, known):
    m = after_update(in_function(OPEN, 0.9))
    ((file, _, line), doing), *_ = m.after_update.activities.items()
    m = changed(m, activities={(file, each, line): doing for each in ("main.<locals>.Table.after_step", *also_there)})

    found = activity_of(m, replace(PART, name=name, kind=PartKind.LINES if name is None else PartKind.CALLBACK))

    assert found == (doing if known else None)


SORTED: Function = ("<built-in>", "built-in method builtins.sorted", 0)
MATRIX: Function = ("<built-in>", "built-in method torch.matmul", 0)
COMPRESS: Function = ("<built-in>", "built-in method zlib.compress", 0)
KEPT_LOCK = "background process (a thread would hold the GIL)"
EITHER = "background thread or process"


@pytest.mark.parametrize(
    ("called", "aside", "less"),
    [
        (SORTED, KEPT_LOCK, "do less in after_step: less data, or operations on whole tensors or arrays (sorted holds"),
        (MATRIX, EITHER, "do less in after_step: fewer operations, on smaller tensors or arrays"),
        (PILLOW, EITHER, "do less in after_step: fewer images, or smaller ones"),
        (COMPRESS, EITHER, "do less in after_step: less to compress, or a lower level"),
    ],
    ids=str,
)
def test_the_advice_fits_what_a_callback_is_busy_with(called, aside, less):
    seldom, other = fixes(first(after_update(in_function(called, 0.7))))

    assert seldom == f"call after_step every k steps, or hand its work to a {aside}, where nothing needs it after every step"
    assert other.startswith(less)


ARGMAX: Function = ("<built-in>", "method 'argmax' of 'torch._C.TensorBase' objects", 0)
COUNTS: Function = (SCRIPT, "confusion_counts", 90)


@pytest.mark.parametrize(("each_us", "is_loop"), [(5, True), (100, False)], ids=["brief", "long"])
def test_a_callback_with_a_loop_in_python_is_to_be_written_as_operations(each_us, is_loop):
    # Half of the time lies between the calls.
    note = calls("gap", 30, (AFTER, 30, 15, [[1, 15]]), (ARGMAX, 15, 15, []))

    texts = fixes(first(after_update(often(note, ARGMAX, 15_000 // each_us))))

    assert (texts[0] == "write the loop in after_step as operations on whole tensors or arrays") is is_loop


@pytest.mark.parametrize(
    ("runs", "begin", "last"),
    [(2, "call after_step every k steps", "do less in after_step (line 85 holds 90 % of it)"), (2000, "write the loop in after_step", "")],
    ids=["long", "often"],
)
def test_where_lines_were_counted_they_tell_what_a_callback_without_calls_does(runs, begin, last):
    file, name, began = AFTER
    rows = [{"file": file, "function": name, "first_line": began, "line": at, "count": n, "ns": round(ns)} for at, n, ns in
            [(84, 1, 1 * MS), (85, runs, 9 * MS)]]  # fmt: skip
    counted = {"kind": "lines", "of": "gap", "complete": True, "lines": rows}

    texts = fixes(first(after_update(calls("gap", 30, (AFTER, 30, 30, [])), counted)))

    assert texts[0].startswith(begin)
    assert not last or texts[1] == last


@pytest.mark.parametrize("stage", ["output", "store"])
def test_what_the_script_has_named_itself_is_judged_whatever_it_does_with_results(stage):
    part = Part(stage, PartKind.SPAN, "write results")

    diagnosis = diagnose(measurements(ledger={part: 8.0}))

    assert (diagnosis.verdict.state, diagnosis.verdict.rule, diagnosis.verdict.stage) == ("bottleneck", "slow-callback", stage)
    assert diagnosis.findings[0].claims == (part,)


@pytest.mark.parametrize("kind", [PartKind.CHECKPOINT, PartKind.SAVE, PartKind.SAVING_FUNCTION])
def test_checkpoints_are_no_callbacks(kind):
    assert "slow-callback" not in named(measurements(ledger={Part("store", kind, "save"): 8.0}))


@pytest.mark.parametrize(("other_ms", "is_named"), [(9, True), (0.9, False)], ids=["large", "small"])
def test_the_next_function_after_the_update_is_named_beside_the_largest(other_ms, is_named):
    found = first(after_update(calls("gap", 30, (AFTER, 30 - other_ms, 30 - other_ms, []), (COUNTS, other_ms, other_ms, []))))

    assert values(found)["function"] == "after_step"
    assert ("next after it: confusion_counts" in values(found)) is is_named
    assert ("confusion_counts (train.py:90)" in found.title) is is_named
    assert "confusion_counts" not in found.gain.assumes


def test_a_callback_that_calls_nothing_may_be_a_loop_in_python():
    """Of a confusion matrix counted in a loop without calls it was said to do less, and that a thread may do it."""
    seldom, less = fixes(first(after_update(calls("gap", 30, (AFTER, 30, 1, [[1, 29]]), (COUNTS, 29, 29, [])))))

    assert "background process (a thread would hold the GIL if it is a loop in Python)" in seldom
    assert less == "do less in confusion_counts: where it is a loop in Python, operations on whole tensors or arrays"


def test_of_a_callback_the_function_that_holds_most_of_it_is_named():
    loop = calls("gap", 30, (AFTER, 30, 1, [[1, 29]]), (COUNTS, 29, 14, [[2, 15]]), (ARGMAX, 15, 15, []))

    found = first(after_update(often(loop, ARGMAX, 3000)))

    (row,) = [row for row in found.evidence if row.name == "most of it in"]
    assert (row.value, row.where) == ("confusion_counts", "97 %, train.py:90")
    assert fixes(found)[0] == "write the loop in confusion_counts as operations on whole tensors or arrays"
    assert fixes(found)[1].startswith("call after_step every k steps")


LISTED = "main.<locals>.<listcomp>"


@pytest.mark.parametrize(("line", "apart"), [(30, True), (34, False)], ids=["the update's", "another"])
def test_a_comprehension_is_a_line_of_the_loop_and_one_that_makes_the_update_too_is_not_to_be_run_more_seldom(line, apart):
    found = first(after_update(calls("gap", 30, ((SCRIPT, LISTED, line), 30, 30, []))))

    assert (found.rule, values(found)["line"]) == (CALLBACK, f"train.py:{line}")
    assert fixes(found)[0].startswith("move what line 30 does besides the update" if apart else "run line 34 every k steps")
    assert found.gain.assumes.startswith("what line 30 does besides the update took" if apart else "line 34 took")


@pytest.mark.parametrize(("called", "rule"), [(LOGGING, LOGS), (PRINT, LOGS), (SKLEARN, METRICS)], ids=str)
def test_what_the_loop_itself_calls_of_such_a_library_is_named(called, rule):
    # No function of the user's between: stacks know the line only.
    m = after_update(calls("gap", 30, (called, 29, 29, [])), line=34)

    found = first(m)
    assert (diagnose(m).verdict.state, found.rule, values(found)["line"]) == ("bottleneck", rule, "train.py:34")
    assert values(found)["most of it in"] == called[1].removeprefix("built-in method builtins.")


@pytest.mark.parametrize(("called", "rule"), [(LOGGING, LOGS), (SKLEARN, METRICS)], ids=str)
def test_what_the_loop_itself_calls_is_named_where_no_stack_stands_for_its_line(called, rule):
    # A handler in Python holds the GIL.
    m = after_update(calls("gap", 30, (called, 27, 27, [])))

    found = first(m)
    assert (diagnose(m).verdict.state, found.rule) == ("bottleneck", rule)
    assert found.evidence[0].where == "called by the loop"
    assert found.gain.low <= TRUTH <= found.gain.high


@pytest.mark.parametrize(
    ("called", "rule", "advised"),
    [(PRINT, LOGS, "write fewer lines"), (LOGGING, LOGS, "raise the level"), (SKLEARN, METRICS, "gather")],
    ids=str,
)
def test_making_what_the_loop_prints_may_take_longer_than_printing_it(called, rule, advised):
    """Of 64 flushed lines a step `print` took a fifth of the gap, and 1.05 (0.87-1.26) was said where 1.13 to 1.43 were true."""
    found = first(after_update(calls("gap", 30, (called, 6, 6, []))))

    assert (found.rule, found.also) == (rule, (CALLBACK,))
    assert found.gain.predicted < TRUTH <= found.gain.high
    assert fixes(found)[1].startswith(advised)


def test_what_a_loop_prints_is_not_to_be_printed_by_a_thread():
    found = finding(CALLBACK, after_update(calls("gap", 30, (PRINT, 27, 27, []))))

    assert fixes(found) == ["print or log less, or call print every k steps"]


def test_what_the_loop_itself_calls_of_other_libraries_has_no_name_without_stacks():
    m = after_update(calls("gap", 30, (PILLOW, 27, 27, [])))

    assert (diagnose(m).verdict.state, named(m)) == ("undetermined", [])


@pytest.mark.parametrize(("shares", "logs"), [((0.4, 0.3, 0.3), False), ((0.9, 0.05, 0.05), True)], ids=["any line", "the longest"])
def test_a_line_is_not_blamed_for_what_another_line_may_call(shares, logs):
    # Log lines take 6 of 10 ms, and no stack tells which of the loop's lines writes them.
    gaps = find_timed_gaps(timeline_of(calls("gap", 30, (PRINT, 18, 18, []))), 0)
    lines = {lines_part("output", "train.py", 34 + number): 10 * share for number, share in enumerate(shares)}

    (entry,) = timed_functions(measurements(ledger=lines, stacks=dict.fromkeys(lines, 20), gaps=gaps))

    assert (entry.name, entry.is_logger) == ("line 34", logs)


@pytest.mark.parametrize(
    ("printing_ms", "begins"),
    [
        (14.4, ["print or log less in lines 34-36 (48 % of their time), or run them every k steps"]),
        (3, ["write the loop in lines 34-36 as operations", "run lines 34-36 every k steps, or hand their work to a background"]),
    ],
    ids=["prints", "computes"],
)
def test_a_loop_of_prints_is_not_to_be_written_as_operations_on_tensors(printing_ms, begins):
    """Nearly half of such a loop was `print`, and the rest made what it printed."""
    gaps = find_timed_gaps(timeline_of(calls("gap", 30, (PRINT, printing_ms, printing_ms, []))), 0)
    loop = lines_part("output", "train.py", 34, 36)

    texts = fixes(finding(CALLBACK, measurements(ledger={loop: 10.0}, stacks={loop: 20}, gaps=gaps)))

    assert all(text.startswith(begin) for text, begin in zip(texts, begins, strict=True))


def test_a_function_with_many_prints_is_to_print_less():
    seldom, less = fixes(first(after_update(in_function(PRINT, 0.48))))

    assert seldom.startswith("call after_step every k steps")
    assert less == "print or log less in after_step (48 % of its time)"


def test_log_lines_of_every_tenth_step_are_not_said_to_be_of_every_step():
    gaps = find_timed_gaps(timeline_of(calls("gap", 300, (PRINT, 290, 290, []))), 0)
    line, tenth = lines_part("output", "train.py", 34), every(10, 100.0)
    m = measurements(ledger={line: tenth}, stacks={line: STACKS}, gaps=gaps)
    event = OccasionalEvent(name=None, known=False, part=line, every_steps=10.0, count=20, ns=m.ledger.of_parts(line))

    found = finding(CALLBACK, changed(m, events=(event,)))

    assert LOGS not in named(changed(m, events=(event,)))
    assert any("less often than every 10 steps" in text for text in fixes(found))


def test_functions_of_one_library_count_together():
    file, _, line = SKLEARN
    rows = [((file, name, line), ms, ms, []) for name, ms in (("f1_score", 15.0), ("accuracy_score", 14.0))]

    (row,) = [row for row in first(after_update(calls("gap", 30, *rows), line=34)).evidence if row.name == "most of it in"]

    assert (row.value, row.where) == ("f1_score with accuracy_score", "97 %")


def test_wrappers_of_a_library_are_called_by_what_they_wrap():
    package = f"{PACKAGES}/sklearn"
    wrapper: Function = (f"{package}/utils/validation.py", "validate.<locals>.wrapper", 1)
    other: Function = (f"{package}/utils/other.py", "other.<locals>.wrapper", 1)
    of_metrics: Function = (f"{package}/metrics/wrapped.py", "validate.<locals>.wrapper", 1)
    # The second one has nothing but wrappers that call each other.
    rows = [(wrapper, 29, 1, [[1, 28]]), (SKLEARN, 28, 20, [[2, 8]]), (other, 8, 4, [[0, 4]])]
    circle = [(of_metrics, 29, 21, [[1, 8]]), (other, 8, 4, [[0, 4]])]

    wrapped, turning = (first(after_update(calls("gap", 30, *each), line=34)) for each in (rows, circle))

    assert values(wrapped)["most of it in"] == "roc_auc_score"
    assert turning.rule == METRICS


def test_a_progress_bar_around_the_loader_is_not_blamed_for_its_batches():
    bar, loader = (f"{PACKAGES}/tqdm/std.py", "tqdm.__iter__", 1), "/opt/slowstep/record/waits.py"
    rows = [(bar, 29, 1, [[1, 28]]), ((loader, "Waits.__next__", 1), 28, 28, [])]

    found = first(after_update(calls("gap", 30, *rows), line=34))

    assert (found.rule, found.also) == (CALLBACK, ())
    assert "most of it in" not in values(found)


WALK: Function = (MODULE, "Module.parameters", 1)
NO_GRAD: Function = (f"{TORCH}/utils/_contextlib.py", "context_decorator.<locals>.decorate_context", 1)
CAT: Function = ("<built-in>", "built-in method torch.cat", 0)
PICTURES: Function = (f"{PACKAGES}/torchvision/utils.py", "save_image", 1)


def method(name: str) -> Function:
    return ("<built-in>", f"method '{name}' of 'torch._C.TensorBase' objects", 0)


@pytest.mark.parametrize(
    ("rows", "within", "aside"),
    [
        ([(AFTER, 30, 3, [[1, 3], [2, 24]]), (WALK, 3, 3, []), (method("lerp_"), 24, 24, [])], "Tensor.lerp_", False),
        ([(AFTER, 30, 8, [[1, 3], [2, 19]]), (WALK, 3, 3, []), (method("clone"), 19, 19, [])], "Tensor.clone", False),
        ([(AFTER, 30, 8, [[1, 3], [2, 19]]), (WALK, 3, 3, []), (CAT, 19, 19, [])], "torch.cat", False),
        ([(AFTER, 30, 3, [[1, 3], [2, 24]]), (WALK, 3, 3, []), (method("norm"), 24, 24, [])], "Tensor.norm", True),
        ([(AFTER, 30, 8, [[1, 19], [2, 3]]), (method("clone"), 19, 19, []), (PICTURES, 3, 3, [])], "Tensor.clone", True),
        ([(AFTER, 30, 3, [[1, 27]]), (PICTURES, 27, 24, [[2, 3]]), (method("add_"), 3, 3, [])], "save_image", True),
    ],
    ids=[
        "an average of weights",
        "an average into new tensors",
        "one tensor of all weights",
        "norms of weights",
        "copies of other tensors",
        "pictures",
    ],
)
def test_a_slow_callback_says_what_holds_it_and_an_average_of_weights_is_not_sent_aside(rows, within, aside):
    found = first(after_update(calls("gap", 30, *rows)))

    assert (found.rule, values(found)["most of it in"]) == (CALLBACK, within)
    assert any("background thread" in text for text in fixes(found)) == aside


def test_a_copy_of_weights_is_not_taken_for_an_average_of_them():
    rows = [(AFTER, 30, 8, [[1, 3], [2, 19]]), (WALK, 3, 3, []), (method("clone"), 19, 19, [])]

    text = fixes(first(after_update(calls("gap", 30, *rows))))[0]

    assert "torch._foreach_lerp_ where it averages weights" in text
    assert "torch._foreach_copy_ into tensors that are kept where it copies them" in text


def test_a_function_is_known_behind_its_decorator():
    rows = [(NO_GRAD, 30, 1, [[1, 29]]), (AFTER, 29, 2, [[2, 3], [3, 24]]), (WALK, 3, 3, []), (method("lerp_"), 24, 24, [])]

    assert values(first(after_update(calls("gap", 30, *rows))))["most of it in"] == "Tensor.lerp_"


def test_a_few_log_lines_are_not_worth_a_finding():
    assert named(after_update(in_function(LOGGING, 0.9), ms=0.4)) == []


def named_by_a_framework(part: Part, *rows: Any) -> Measurements:
    """What a framework names takes 10 ms after each update; calls were timed in three of these gaps."""
    timeline = timeline_of(calls("gap", 30, *rows))
    return measurements(ledger={part: 10.0}, gaps=find_timed_gaps(timeline, 0), activities=find_activities(timeline, 0))


AVERAGED: Function = (f"{PACKAGES}/lightning/pytorch/callbacks/average.py", "Average.on_train_batch_end", 1)
OWN_AVERAGE: Function = (SCRIPT, "Average.on_train_batch_end", 1)
UPDATE: Function = (f"{TORCH}/optim/swa_utils.py", "AveragedModel.update_parameters", 1)


@pytest.mark.parametrize(
    ("function", "place", "called", "says"),
    [
        (AVERAGED, None, UPDATE, "its update_every_n_steps"),
        (OWN_AVERAGE, CodePlace("train.py", 1), UPDATE, "torch._foreach_lerp_"),
        (AVERAGED, None, PILLOW, "background thread"),
    ],
    ids=["the framework's", "the script's", "no average"],
)
def test_a_frameworks_callback_that_averages_weights_is_not_sent_aside(function, place, called, says):
    part = Part("output", PartKind.CALLBACK, "Average.on_train_batch_end", place)

    texts = fixes(finding(CALLBACK, named_by_a_framework(part, (function, 30, 1, [[1, 29]]), (called, 29, 29, []))))

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
def test_a_logger_of_the_scripts_own_is_advised_by_what_its_method_does(rows, aside, less):
    """The ledger knows a logger by its class, timed calls by the method."""
    part = Part("output", PartKind.LOGGING, "TableLogger", CodePlace("train.py", 69))

    found = finding(CALLBACK, named_by_a_framework(part, *rows))

    seldom, other = fixes(found)
    assert seldom.endswith(aside)
    assert other.startswith(less)
    assert values(found).get("most of it in") == (FORMAT[1] if FORMAT in [row[0] for row in rows] else None)


@pytest.mark.parametrize(("name", "is_spared"), [("Model.predict", True), ("Draw.on_epoch_end", False)])
def test_of_a_frameworks_call_that_another_one_spares_that_one_is_said(name, is_spared):
    predicts = Part("output", PartKind.CALLBACK, name)

    found = finding(CALLBACK, measurements(ledger={predicts: 10.0}))

    assert (does_for_less(name) is not None) is is_spared
    assert (does_for_less(name) in [fix.text for fix in found.fixes]) is is_spared
    # No lever leaves out what a callback of that name would be.
    assert [fix.lever for fix in found.fixes if fix.lever] == ([] if is_spared else ["callbacks-off=Draw"])
