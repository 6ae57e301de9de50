"""Scripts that update their parameters by hand, without any optimizer of torch's: their steps are seen all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launching import Workplace
from recorded import Ran, Server, run_script
from slowstep.analyses.steps.steps import find_steps
from slowstep.analyses.steps.suspensions import NO_SUSPENSIONS
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.record.timing.gradient_names import names_gradients
from slowstep.record.writing.format import ENV_STEPS
from slowstep.sources.recording import SOURCE
from slowstep.timeline.schema import TABLE

pytest.importorskip("torch")

Run = Callable[..., Ran]

PARTS = """
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

# The server that scripts are forked from has built some, and torch keeps the mark.
for optimizer in torch.optim.Optimizer.__subclasses__():
    if hasattr(optimizer.step, "hooked"):
        optimizer.step = optimizer.step.__wrapped__
torch.manual_seed(1)
model, other = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
loader = DataLoader(TensorDataset(torch.ones(40, 8)), batch_size=4)

def loss_of(inputs):
    return other(model(inputs)).mean()

def update(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.01 * parameter.grad
            parameter.grad = None
"""


@pytest.fixture
def run(server: Server, tmp_path: Path) -> Run:
    """Runs the lines of a main program behind PARTS."""
    return lambda main, **variables: run_script(server, tmp_path, PARTS + main, **variables)


def by_hand(ran: Ran) -> list[dict[str, Any]]:
    return [note for note in ran.trainer.noted("optimizer") if note.get("by_hand")]


@pytest.mark.slow
def test_a_backward_ends_a_step_where_no_optimizer_was_built(run: Run) -> None:
    ran = run("for (inputs,) in loader:\n    loss_of(inputs).backward()\n    update(model)\n")

    assert (ran.code, ran.err) == (0, "")
    # The first three tell that there is no optimizer.
    assert len(ran.trainer.of("BACKWARD")) == 10
    assert len(ran.trainer.of("UPDATE")) == 7
    (note,) = by_hand(ran)
    assert note["device"] == "cpu"
    (frame,) = ran.trainer.noted("training_frame")
    assert (frame["function"], Path(frame["file"]).suffix) == ("<module>", ".py")
    assert ran.trainer.faults == {}


@pytest.mark.slow
def test_the_training_ends_as_it_does_unrecorded(run: Run) -> None:
    main = "for (inputs,) in loader:\n    loss_of(inputs).backward()\n    update(model)\nprint(model.weight.tolist())\n"

    recorded, plain = run(main, name="a"), run(main, recorded=False, name="b")

    assert recorded.out == plain.out != ""


@pytest.mark.slow
def test_several_backwards_for_one_batch_are_one_step(run: Run) -> None:
    ran = run("""
for (inputs,) in loader:
    inputs.requires_grad_()
    other(checkpoint(model, inputs, use_reentrant=True)).mean().backward()
    model(inputs).pow(2).mean().backward()
    update(model)
""")

    assert (ran.code, ran.err) == (0, "")
    # Three for each batch: the checkpoint runs one inside another.
    assert len(ran.trainer.of("BACKWARD")) == 30
    assert len(ran.trainer.of("UPDATE")) == 17
    trainer = find_trainer(SOURCE.read(ran.folder))
    assert len(trainer.update_end_ns) == 9
    assert find_steps(trainer, TABLE["totals"].empty(), NO_SUSPENSIONS).boundary == "request for input"


@pytest.mark.slow
@pytest.mark.parametrize(
    "main",
    [
        "inputs = next(iter(loader))[0]\nfor _ in range(30):\n    loss_of(inputs).backward()\n    update(model)\n",
        "for _ in loader:\n    pass\nfor _ in range(30):\n    loss_of(torch.ones(4, 8)).backward()\n    update(model)\n    list(loader)\n",
    ],
    ids=["one batch for all steps", "a loader beside the training"],
)
def test_a_loader_that_does_not_feed_the_training_ends_no_steps(run: Run, main: str) -> None:
    ran = run(main)

    assert (ran.code, ran.err) == (0, "")
    assert len(find_trainer(SOURCE.read(ran.folder)).update_end_ns) == 27


@pytest.mark.slow
def test_a_few_calls_of_an_optimizer_beside_a_training_by_hand_are_no_training(run: Run) -> None:
    ran = run("""
for _ in range(60):
    loss_of(torch.ones(4, 8)).backward()
    update(model)
optimizer = torch.optim.SGD(other.parameters(), lr=0.01)
loss_of(torch.ones(4, 8)).backward()
optimizer.step()
""")

    assert (ran.code, ran.err) == (0, "")
    assert len(find_trainer(SOURCE.read(ran.folder)).update_end_ns) == 57


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("p.data.add_(p.grad)", True),
        ("torch._foreach_add_(params, [p.grad for p in params])", True),
        ("[p.sub_(g) for p, g in zip(params, grads)]", True),
        ("torch.no_grad(); p.requires_grad", False),
        ("def log(): print(p.grad)", False),
    ],
)
def test_who_updates_by_hand_names_gradients(body: str, names: bool) -> None:
    assert names_gradients(compile(f"def update():\n    {body}\n", "train.py", "exec").co_consts[0]) == names


def test_each_backward_is_a_step_of_a_loop_without_a_loader(run: Run) -> None:
    ran = run("for _ in range(10):\n    loss_of(torch.ones(4, 8)).backward()\n    update(model)\n")

    assert len(ran.trainer.of("UPDATE")) == 7


@pytest.mark.slow
def test_backwards_before_an_optimizer_is_first_called_are_no_updates_of_the_training(run: Run) -> None:
    ran = run("""
for _ in range(30):
    inputs = torch.ones(4, 8, requires_grad=True)
    loss_of(inputs).backward()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (inputs,) in loader:
    optimizer.zero_grad()
    loss_of(inputs).backward()
    optimizer.step()
""")

    assert (ran.code, ran.err) == (0, "")
    assert len(by_hand(ran)) == 1
    updates = SOURCE.read(ran.folder).table("updates")
    assert updates.height == 10
    assert updates["optimizer"].unique().to_list() == [2]


def test_an_optimizer_that_was_built_ends_the_search(run: Run) -> None:
    ran = run("""
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (inputs,) in loader:
    loss_of(inputs).backward()
optimizer.step()
""")

    assert by_hand(ran) == []
    assert len(ran.trainer.of("UPDATE")) == 1


@pytest.mark.slow
def test_the_recording_ends_after_so_many_steps(run: Run) -> None:
    ran = run("for _ in range(12):\n    loss_of(torch.ones(4, 8)).backward()\n    update(model)\n", **{ENV_STEPS: "5"})

    assert (ran.code, ran.err) == (0, "")
    assert len(ran.trainer.of("UPDATE")) == 5
    assert ran.trainer.noted("end")[0]["reason"] == "steps"


def test_a_backward_that_fails_fails_without_our_frames(run: Run) -> None:
    ran = run("""
for _ in range(5):
    loss_of(torch.ones(4, 8)).backward()
loss_of(torch.ones(4, 8)).detach().backward()
""")

    assert ran.code == 1
    assert "does not require grad" in ran.err
    assert "slowstep/record/" not in ran.err
    assert "slowstep/frameworks/" not in ran.err


SCRIPT = """\
import sys
import time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
loader = DataLoader(TensorDataset(torch.randn(4096, 256)), batch_size=64)


def momentum(velocities):
    with torch.no_grad():
        for parameter, velocity in zip(model.parameters(), velocities):
            for _ in range(20):
                velocity.mul_(0.9).add_(parameter.grad, alpha=0.05)
            parameter -= 0.01 * velocity
            parameter.grad = None


def draw(outputs):
    time.sleep(0.01)


velocities = [torch.zeros_like(parameter) for parameter in model.parameters()]
for epoch in range(8):
    for (inputs,) in loader:
        outputs = model(inputs)
        outputs.pow(2).mean().backward()
        momentum(velocities)
        if sys.argv[1] == "draw":
            draw(outputs)
"""


def report_of(work: Workplace, problem: str) -> dict[str, Any]:
    work.write("train.py", SCRIPT)
    ended = work.run("train.py", problem)
    assert ended.code == 0, ended.err
    report: dict[str, Any] = json.loads((work.recording() / "report.json").read_text())
    return report


@pytest.mark.slow
def test_a_function_that_updates_is_the_training_s_own_work(work: Workplace) -> None:
    report = report_of(work, "plain")

    compute = next(row for row in report["ledger"] if row["stage"] == "compute")
    update = next(part for part in compute["parts"] if part["name"] == "update by hand")
    assert update["share"] > 0.1
    assert "slow-callback" not in [finding["rule"] for finding in report["findings"]]
    assert any("end with its backward pass" in note for note in report["run"]["notes"])


@pytest.mark.slow
def test_what_else_runs_after_the_backward_is_a_callback(work: Workplace) -> None:
    report = report_of(work, "draw")

    assert report["verdict"]["rule"] == "slow-callback", report["verdict"]["summary"]
    assert report["findings"][0]["title"].startswith("draw (train.py:")
