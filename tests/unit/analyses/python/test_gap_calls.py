from __future__ import annotations

import pytest

from slowstep.analyses.python.gap_calls import GapCalls, Node

PACKAGES = "/usr/lib/python3.11/site-packages"


def _node(file: str, name: str, total: float = 1.0, edges: dict[int, float] | None = None) -> Node:
    return Node(file=file, name=name, line=1, total=total, own=total, calls=1, edges=edges or {})


@pytest.mark.parametrize(
    ("file", "name", "shown"),
    [
        ("<built-in>", "method 'item' of 'torch._C.TensorBase' objects", "Tensor.item"),
        ("<built-in>", "method 'add_' of 'torch._C._TensorBase' objects", "Tensor.add_"),
        ("<built-in>", "built-in method builtins.print", "print"),
        ("<built-in>", "built-in method torch._foreach_lerp_", "torch._foreach_lerp_"),
        ("train.py", "Writer.add", "Writer.add"),
    ],
)
def test_names_are_as_people_write_them(file, name, shown):
    assert _node(file, name).shown == shown


@pytest.mark.parametrize(
    ("file", "logs", "judges"),
    [
        (f"{PACKAGES}/wandb/sdk/wandb_run.py", True, False),
        (f"{PACKAGES}/torchmetrics/metric.py", False, True),
        ("/home/me/wandb/train.py", False, False),
        ("/home/me/evaluate/train.py", False, False),
        ("/home/rich/miniconda3/lib/python3.11/site-packages/PIL/Image.py", False, False),
        ("/home/me/evaluate/.venv/lib/python3.11/site-packages/torch/optim/lr_scheduler.py", False, False),
        ("/usr/lib/python3.11/logging/__init__.py", True, False),
        (f"{PACKAGES}/torch/utils/tensorboard/writer.py", True, False),
        (f"{PACKAGES}/sklearn/metrics/_ranking.py", False, True),
        (f"{PACKAGES}/sklearn/metrics/pairwise.py", False, False),
        (f"{PACKAGES}/sklearn/metrics/_pairwise_distances_reduction/_dispatcher.py", False, False),
        (f"{PACKAGES}/sklearn/cluster/_kmeans.py", False, False),
        (f"{PACKAGES}/skimage/metrics/_structural_similarity.py", False, True),
        (f"{PACKAGES}/skimage/transform/_warps.py", False, False),
        (f"{PACKAGES}/numpy/lib/histograms.py", False, False),
    ],
)
def test_what_a_library_does_is_not_said_of_a_folder_of_the_users_with_its_name(file, logs, judges):
    node = _node(file, "log")

    assert (node.is_logging(), node.is_metrics()) == (logs, judges)


@pytest.mark.parametrize(
    ("name", "judges"),
    [
        ("method 'item' of 'torch._C.TensorBase' objects", True),
        ("method 'tolist' of 'numpy.ndarray' objects", True),
        ("method 'sort' of 'numpy.ndarray' objects", False),
        ("method 'reduce' of 'numpy.ufunc' objects", False),
        ("method 'numpy' of 'torch._C.TensorBase' objects", True),
    ],
)
def test_of_built_in_functions_those_that_read_results_back_judge(name, judges):
    node = _node("<built-in>", name)

    assert (node.is_metrics(), node.computes()) == (judges, judges or "of 'numpy" in name)


@pytest.mark.parametrize(
    ("file", "name", "judges"),
    [
        (f"{PACKAGES}/tensorflow/python/framework/ops.py", "_EagerTensorBase.numpy", True),
        (f"{PACKAGES}/tensorflow/python/framework/ops.py", "_EagerTensorBase.__float__", True),
        (f"{PACKAGES}/tensorflow/python/framework/ops.py", "_EagerTensorBase.__copy__", False),
        (f"{PACKAGES}/jax/_src/array.py", "ArrayImpl._value", True),
        (f"{PACKAGES}/jax/_src/array.py", "ArrayImpl.__array__", True),
        (f"{PACKAGES}/jax/_src/array.py", "ArrayImpl.block_until_ready", False),
        (f"{PACKAGES}/jax/_src/api.py", "device_get", True),
        (f"{PACKAGES}/keras/src/metrics/metric.py", "Metric.update_state", True),
        (f"{PACKAGES}/keras/src/layers/layer.py", "Layer.__call__", False),
        ("/home/me/train.py", "device_get", False),
    ],
)
def test_of_functions_of_frameworks_those_that_read_results_back_or_hold_metrics_judge(file, name, judges):
    assert _node(file, name).is_metrics() is judges


@pytest.mark.parametrize(
    ("name", "file", "named"),
    [
        ("f1_score", "train.py", True),
        ("ConfusionMatrix.add", "train.py", True),
        ("AUCMeter.update", "train.py", True),
        ("main.<locals>.auc_per_class", "train.py", True),
        ("area_under_curve", "train.py", True),
        ("draw_curve", "train.py", False),
        ("ScoreNet.main.<locals>.draw", "train.py", False),
        ("cluster_features", "train.py", False),
        ("accumulate", "train.py", False),
        ("Writer.add_histogram", "train.py", False),
        ("f1_score", f"{PACKAGES}/tool/main.py", False),
    ],
)
def test_names_of_the_users_functions_say_whether_they_judge(name, file, named):
    assert _node(file, name).named_for_metrics is named


def test_what_a_function_spends_in_libraries_is_found_behind_the_users_own_functions():
    nodes = {
        0: _node("train.py", "after", 100, {1: 80, 3: 10}),
        # Of its 160, half is of others' calls.
        1: _node("train.py", "draw", 160, {2: 120}),
        2: _node(f"{PACKAGES}/PIL/Image.py", "Image.save", 120, {3: 50}),
        3: _node("<built-in>", "method 'write' of '_io.TextIOWrapper' objects", 60),
    }

    assert GapCalls(nodes, slowdown=1.0).in_libraries(0) == {2: 60, 3: 10}


def test_functions_that_call_each_other_are_followed_once():
    nodes = {0: _node("train.py", "f", 100, {1: 90}), 1: _node("train.py", "g", 90, {0: 50, 2: 40}), 2: _node("<built-in>", "sum", 40)}

    assert GapCalls(nodes, slowdown=1.0).in_libraries(0) == {2: 40}


def test_a_function_that_two_others_call_is_counted_for_both():
    nodes = {
        0: _node("train.py", "after", 100, {1: 50, 2: 50}),
        1: _node("train.py", "log_train", 50, {3: 50}),
        2: _node("train.py", "log_validation", 50, {3: 50}),
        3: _node("train.py", "_write", 100, {4: 100}),
        4: _node(f"{PACKAGES}/PIL/Image.py", "Image.save", 100),
    }

    assert GapCalls(nodes, slowdown=1.0).in_libraries(0) == {4: 100}


def _gone(node: Node) -> bool:
    return node.file == "gone.py"


def test_what_is_taken_out_is_missing_in_all_that_called_it():
    nodes = {
        0: _node("train.py", "Runner.train", 100, {1: 90}),
        1: _node("train.py", "fetch", 90, {2: 80}),
        2: _node("gone.py", "request", 80, {3: 70}),
        3: _node("dataset.py", "__getitem__", 70),
    }

    left = GapCalls(nodes, slowdown=1.0).without(_gone)

    assert (left.nodes[0].total, left.nodes[1].total, left.nodes[0].edges) == (pytest.approx(20), pytest.approx(10), {1: pytest.approx(10)})
    assert left.in_libraries(0) == {}
    # What the request called is still called by it alone.
    assert left.roots() == {0: pytest.approx(20), 2: 80}


def test_what_is_taken_out_behind_functions_that_call_each_other_is_taken_out_once():
    """`next(loader)`, whose `__next__` asks for `next(iterator)` itself: one built-in function, called twice."""
    nodes = {
        0: _node("train.py", "Runner.train", 100, {1: 90}),
        1: _node("<built-in>", "next", 90, {2: 90, 3: 88}),
        2: _node("train.py", "Endless.__next__", 90, {1: 89}),
        3: _node("gone.py", "request", 88),
    }

    left = GapCalls(nodes, slowdown=2.0).without(_gone)

    assert left.nodes[0].total == pytest.approx(11, abs=2)
    assert left.left(0) == pytest.approx(0.5, abs=0.1)
