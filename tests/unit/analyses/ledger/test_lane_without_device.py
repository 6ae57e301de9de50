"""The ledger of a trace without a device."""

from __future__ import annotations

import polars as pl

from made_parts import us_of
from made_traces import host, made_trace, step
from slowstep.analyses.input.loader_requests import find_requests
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.analyses.steps.trace_steps import find_trace_steps
from slowstep.part_words import part_in_words
from slowstep.timeline.timeline import Timeline

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
STEP = [
    host(LOADER, 0, 30, "annotation"),
    host("aten::stack", 5, 25),
    host("aten::linear", 40, 60),
    host("aten::addmm", 42, 58),
    host("autograd::engine::evaluate_function: AddmmBackward0", 70, 100),
    host("aten::mm", 72, 95),
    host("Optimizer.step#SGD.step", 110, 130, "annotation"),
    host("aten::add_", 112, 120),
]


def charged(trace: Timeline) -> dict[tuple[str, str], float]:
    ledger, gaps = build_trace_ledger(trace, find_trace_steps(trace)[0])
    assert gaps.is_empty()
    return {(part.stage, part_in_words(part)): us for part, us in us_of(ledger).items()}


def test_a_step_is_divided_by_what_the_training_thread_does() -> None:
    assert charged(made_trace(hosts=STEP, steps=[step(1, 0, 150)])) == {
        ("preprocess", "waiting for input"): 30,
        ("compute", "forward"): 20,
        ("compute", "backward"): 30,
        ("compute", "optimizer"): 20,
        ("compute", "between operators"): 30,
        ("unattributed", "nothing recorded"): 20,
    }


def test_other_threads_that_compute_something_else_do_not_count() -> None:
    others = [host("aten::stack", 0, 150, thread=5)]
    assert charged(made_trace(hosts=STEP + others, steps=[step(1, 0, 150)])) == charged(made_trace(hosts=STEP, steps=[step(1, 0, 150)]))


def test_autograds_own_thread_counts_for_the_training_thread() -> None:
    moved = [row | {"thread": 1} if row["start"] in (70, 72) else row for row in STEP]
    assert charged(made_trace(hosts=moved, steps=[step(1, 0, 150)])) == charged(made_trace(hosts=STEP, steps=[step(1, 0, 150)]))


def test_a_collective_is_exposed_while_the_training_thread_computes_nothing() -> None:
    # From 80 to 95 aten::mm runs beside it; autograd's node goes on to 100, and waits.
    sharing = host("gloo:all_reduce", 80, 108, "annotation", thread=7)
    found = charged(made_trace(hosts=[*STEP, sharing], steps=[step(1, 0, 150)]))
    assert found["gradient_sharing", "exposed collectives"] == 13
    assert found["compute", "backward"] == 25


def test_a_step_without_operators_is_unattributed() -> None:
    assert charged(made_trace(hosts=[host("gloo:all_reduce", 20, 60, "annotation", thread=3)], steps=[step(1, 0, 100)])) == {
        ("gradient_sharing", "exposed collectives"): 40,
        ("unattributed", "nothing recorded"): 60,
    }


def test_requests_for_input_are_listed_once_with_their_step() -> None:
    hosts = [*STEP, host("## load_batch ##", 150, 190, "annotation"), host(LOADER, 155, 185, "annotation"), host("aten::mm", 200, 230)]
    hosts += [host("aten::mm", 240, 250), host("MmBackward0", 260, 270), host(LOADER, 250, 259, "annotation", thread=4)]
    trace = made_trace(hosts=hosts, steps=[step(1, 0, 150), step(2, 150, 300)])
    steps, _ = find_trace_steps(trace)
    assert find_requests(trace, steps, build_trace_ledger(trace, steps)[1]).select("step", "name", "exposed_ns").rows() == [
        (0, LOADER, 30_000),
        (1, "## load_batch ##", 40_000),
    ]


def test_an_executors_wait_for_the_next_element_is_the_steps() -> None:
    hosts = [
        host("IteratorGetNextOp::DoCompute", 10, 80, "annotation", thread=3),
        host("Iterator::Prefetch::Map", 0, 95, "annotation", thread=4),
    ]
    trace = made_trace(hosts=hosts, steps=[step(1, 0, 100, mark="Profiled batch")])
    assert charged(trace) == {("preprocess", "waiting for input"): 70, ("unattributed", "nothing recorded"): 30}


def test_python_between_the_input_and_the_first_operator_is_compute() -> None:
    hosts = [row for row in STEP if row["name"] != "aten::stack"]
    assert charged(made_trace(hosts=hosts, steps=[step(1, 0, 150)]))["compute", "between operators"] == 30


def test_with_stacks_a_request_is_called_as_the_loader_calls_it() -> None:
    function = host("torch/utils/data/dataloader.py(701): __next__", 155, 190, "python")
    hosts = [*STEP, function, host(LOADER, 156, 185, "annotation"), host("MmBackward0", 260, 270)]
    trace = made_trace(hosts=hosts, steps=[step(1, 0, 150), step(2, 150, 300)])
    steps, _ = find_trace_steps(trace)

    requests = find_requests(trace, steps, build_trace_ledger(trace, steps)[1]).filter(pl.col("step") == 1)

    assert requests.select("name", "exposed_ns").rows() == [(LOADER, 35_000)]


def test_what_somebody_named_after_the_update_is_output_by_its_name() -> None:
    inner, outer = host("draw", 134, 136, "annotation"), host("save_images", 132, 142, "annotation")
    read_back = host("aten::item", 135, 136)
    found = charged(made_trace(hosts=[*STEP, outer, inner, read_back], steps=[step(1, 0, 150)]))
    assert found["output", "save_images"] == 10
    assert found["compute", "forward"] == 20


def test_a_name_around_the_whole_step_says_nothing_of_what_is_beside_the_model() -> None:
    whole = host("train_step", 1, 149, "annotation")
    assert charged(made_trace(hosts=[*STEP, whole], steps=[step(1, 0, 150)])) == charged(made_trace(hosts=STEP, steps=[step(1, 0, 150)]))


def test_where_operators_are_on_other_threads_neither_the_step_nor_the_call_that_makes_it_is_beside_the_model() -> None:
    """As Keras marks steps, and TensorFlow runs them."""
    hosts = [
        host("Profiled batch", 0, 100, "annotation"),
        host("multi_step_on_iterator", 40, 95, "annotation"),
        host("MatMul", 50, 90, thread=4),
    ]
    wait = host("IteratorGetNext", 5, 35, "annotation")
    assert charged(made_trace(hosts=[wait, *hosts], steps=[step(1, 0, 100, thread=0)])) == {
        ("preprocess", "waiting for input"): 30,
        ("unattributed", "nothing recorded"): 70,
    }


def test_the_scripts_functions_after_the_update_are_output_by_their_names_and_places() -> None:
    loop = host("train.py(50): main", 0, 150, "python")
    draw, inner = host("/home/me/train.py(30): save_images", 132, 142, "python"), host("train.py(9): encode", 134, 140, "python")
    before = host("train.py(12): augment", 31, 39, "python")
    library = host("/usr/lib/python3/dist-packages/PIL/Image.py(5): save", 143, 146, "python")
    loads = host("train.py(60): load_batch", 146, 149, "python")
    found = charged(made_trace(hosts=[*STEP, loop, draw, inner, before, library, loads], steps=[step(1, 0, 150)]))
    plain = charged(made_trace(hosts=STEP, steps=[step(1, 0, 150)]))
    assert found == {**plain, ("output", "save_images (train.py:30)"): 10, ("unattributed", "nothing recorded"): 10}


LIGHTNING = "[pl][profile]"
STRATEGY, CALLBACK = f"{LIGHTNING}[Strategy]SingleDeviceStrategy", f"{LIGHTNING}[Callback]Saver"


def lightning(at: float, *, callback: float = 10, hook: str = "on_train_batch_end") -> list[dict[str, object]]:
    """What Lightning's own profiler records from one `training_step`'s end to the next, in 200 us: there it ends its steps."""
    return [
        host(f"{STRATEGY}.backward", at + 2, at + 40, "annotation"),
        host("autograd::engine::evaluate_function: AddmmBackward0", at + 5, at + 35),
        host("aten::add_", at + 45, at + 55),
        host(f"{CALLBACK}.{hook}", at + 70, at + 70 + callback, "annotation"),
        host(f"{LIGHTNING}[_TrainingEpochLoop].train_dataloader_next", at + 90, at + 100, "annotation"),
        host(f"{STRATEGY}.batch_to_device", at + 102, at + 105, "annotation"),
        host(f"{LIGHTNING}run_training_batch", at + 110, at + 262, "annotation"),
        host("Optimizer.step#SGD.step", at + 115, at + 260, "annotation"),
        host(f"{STRATEGY}.training_step", at + 120, at + 200, "annotation"),
        host("aten::linear", at + 125, at + 195),
    ]


def test_a_forward_that_ends_a_step_inside_of_the_optimizers_call_is_compute() -> None:
    hosts = [row for n in range(3) for row in lightning(200 * n)]

    found = charged(made_trace(hosts=hosts, steps=[step(n, 200 * n, 200 * (n + 1)) for n in (1, 2)]))

    assert found == {
        ("preprocess", "waiting for input"): 20,
        ("compute", "forward"): 140,
        ("compute", "backward"): 60,
        ("compute", "optimizer"): 50,
        ("compute", "between operators"): 2 * (5 + 25 + 5),
        ("output", f"{CALLBACK}.on_train_batch_end"): 20,
        ("unattributed", "nothing recorded"): 2 * (10 + 10),
    }


def test_a_callback_beside_the_model_is_named_by_lightning_wherever_it_is_called() -> None:
    hosts = [row for n in range(3) for row in lightning(200 * n, hook="on_after_backward")]

    assert charged(made_trace(hosts=hosts, steps=[step(1, 200, 400)]))["output", f"{CALLBACK}.on_after_backward"] == 10


def test_what_a_training_step_does_after_its_own_update_is_output_by_its_name() -> None:
    by_itself = [
        host(f"{STRATEGY}.training_step", 35, 190, "annotation"),
        host("save_images", 135, 185, "annotation"),
    ]

    found = charged(made_trace(hosts=[*STEP, *by_itself], steps=[step(1, 0, 200)]))

    assert found["output", "save_images"] == 50


def handed(start: float, end: float, **more: object) -> dict[str, object]:
    return {"thread": 3, "start": start, "end": end, **more}


def test_what_a_runtime_does_for_the_training_thread_is_its_compute_even_while_that_waits_for_input() -> None:
    trace = made_trace(
        hosts=[host("load_batch", 0, 40, "annotation"), host("other", 60, 90, "annotation", thread=3)],
        steps=[step(1, 0, 100)],
        handed=[handed(30, 80), {"thread": 0, "start": 40, "end": 50, "works": False}, handed(0, 100, for_thread=3)],
    )

    assert charged(trace) == {
        ("preprocess", "waiting for input"): 30,
        ("compute", "operators"): 50,
        ("unattributed", "nothing recorded"): 20,
    }


def test_between_the_operators_of_a_call_it_is_still_compute() -> None:
    call = {"thread": 0, "start": 10, "end": 90, "works": False}
    trace = made_trace(hosts=[host("x", 0, 1, "annotation")], steps=[step(1, 0, 100)], handed=[call, handed(20, 60)])

    assert charged(trace) == {
        ("compute", "operators"): 40,
        ("compute", "between operators"): 40,
        ("unattributed", "nothing recorded"): 20,
    }


def test_what_a_named_range_hands_over_belongs_to_that_range() -> None:
    trace = made_trace(
        hosts=[host("validation", 50, 100, "annotation")],
        steps=[step(1, 0, 100)],
        handed=[handed(10, 40, handed=5), handed(60, 90, handed=55)],
    )

    assert charged(trace) == {
        ("compute", "operators"): 30,
        ("output", "validation"): 50,
        ("unattributed", "nothing recorded"): 20,
    }
