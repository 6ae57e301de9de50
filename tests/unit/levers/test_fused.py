"""The lever `fused` on real trainings: one pass over the parameters while it is on, and everything as it was while it is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from few import few
from levered import run_planned, said
from recorded import Ran, Server

pytest.importorskip("torch")

# Before each update it is printed whether it will be fused. The same is trained once more, without the lever, when the plan is over.
SCRIPT = """
import torch

def train(model, optimizer, tell=lambda *_: None, **more):
    for number in range(24):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        tell(optimizer)
        {update}
    return loss.item()

class Own(torch.optim.SGD):
    pass

def trained(tell=lambda *_: None):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = {optimizer}
    return train(model, optimizer, tell), optimizer

def tell(optimizer):
    print(*(group.get("fused") for group in optimizer.param_groups))

scaler = torch.amp.GradScaler("cpu")
made = torch.optim.{like}([torch.nn.Parameter(torch.zeros(1))])
loss, optimizer = trained(tell)
names = ("fused", "foreach")
print("groups", all([group.get(name) for name in names] == [made.defaults[name] for name in names] for group in optimizer.param_groups))
print("defaults", [optimizer.defaults.get(name) for name in names] == [made.defaults[name] for name in names])
states = [state["step"] for state in optimizer.state.values() if "step" in state]
print("counts", {{(float(step), step.dtype, step.device.type) for step in states}})
print("hooks", len(optimizer._optimizer_step_pre_hooks), torch.amp.GradScaler.scale.__module__)
print("differs", abs(trained()[0] - loss) > 1e-5)
"""
BLOCKS = (0, 2, 1, 2, 0)


def run(server: Server, place: Path, optimizer: str, *, update: str = "optimizer.step()", like: str = "Adam") -> Ran:
    text = SCRIPT.format(optimizer=optimizer, update=update, like=like)
    return run_planned(server, place, text, "fused", blocks=BLOCKS, steps=2)


@pytest.mark.parametrize(
    ("like", "arguments", "count"),
    few(
        [
            ("Adam", "", "{(24.0, torch.float32, 'cpu')}"),
            ("AdamW", ", amsgrad=True", "{(24.0, torch.float32, 'cpu')}"),
            ("Adagrad", "", "{(24.0, torch.float32, 'cpu')}"),
            ("SGD", ", momentum=0.9", "set()"),
        ],
        every=3,
    ),
)
def test_updates_are_fused_in_its_blocks_and_in_no_others(server: Server, tmp_path: Path, like: str, arguments: str, count: str) -> None:
    ran = run(server, tmp_path, f"torch.optim.{like}(model.parameters(){arguments}, lr=1e-2)", like=like)

    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    arms = [record.extra for record in ran.trainer.of("ARM")]
    assert [number for number, line in enumerate(lines[:24]) if line == "True"] == [n + 2 for n, arm in enumerate(arms) if arm == 2]
    assert lines[24:] == [
        "groups True", "defaults True", f"counts {count}", "hooks 0 torch.amp.grad_scaler", "differs False",
    ]  # fmt: skip
    effect = said(ran, "effect")[-1]
    assert effect["effect"] == arms.count(2)
    assert effect["facts"] == {"optimizers": [like], "arguments": {"fused": True}, "arguments_of": "optimizer"}
    assert ran.trainer.faults == {}


def test_counts_of_updates_are_of_the_type_that_a_fused_update_reads_and_then_of_their_own(server: Server, tmp_path: Path) -> None:
    wide = "torch.set_default_dtype(torch.float64) or torch.optim.Adam(model.double().parameters(), lr=1e-2)"
    tells = SCRIPT.replace("print(*(", "print({{str(state['step'].dtype) for state in optimizer.state.values()}}, *(")
    text = tells.format(optimizer=wide, update="optimizer.step()", like="Adam")

    ran = run_planned(server, tmp_path, text, "fused", blocks=BLOCKS, steps=2)

    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert set(lines[1:24]) == {"{'torch.float32'} True", "{'torch.float64'} None"}
    assert lines[26] == "counts {(24.0, torch.float64, 'cpu')}"


MEANWHILE = """optimizer.step()
        if number == 5:
            optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]})
            optimizer.load_state_dict(optimizer.state_dict())"""


@pytest.mark.slow
def test_groups_that_the_script_makes_meanwhile_are_left_as_the_script_makes_them(server: Server, tmp_path: Path) -> None:
    ran = run(server, tmp_path, "torch.optim.Adam(model.parameters(), lr=1e-2)", update=MEANWHILE)

    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert "True True" in lines
    assert lines[24:26] == ["groups True", "defaults True"]
    assert lines[23] == "None None"


CLOSURE = "optimizer.step(lambda: loss)"
SCALED = """scaler.scale(loss)
        optimizer.step()"""
SPARSE = """model[0].weight.grad = model[0].weight.grad.to_sparse()
        optimizer.step()"""
SGD = "torch.optim.SGD(model.parameters(), lr=1e-2)"


@pytest.mark.parametrize(
    ("optimizer", "update", "reason"),
    few(
        [
            (SGD, CLOSURE, "the optimizer calls a closure, in which code of the script's runs"),
            (SGD, SCALED, "the script uses a GradScaler, which leaves a pass of its own to fused optimizers"),
            (SGD, SPARSE, "a gradient is sparse"),
            ("torch.optim.Adam(model.parameters(), fused=True)", "optimizer.step()", "the optimizer is fused already"),
            (
                "torch.optim.RMSprop(model.parameters())",
                "optimizer.step()",
                "RMSprop is none of Adam, AdamW, SGD, Adagrad, as torch has them",
            ),
            ("Own(model.parameters(), lr=1e-2)", "optimizer.step()", "Own is none of Adam, AdamW, SGD, Adagrad, as torch has them"),
        ],
        every=4,
    ),
    ids=["closure", "scaler", "sparse", "fused", "another", "a subclass"],
)
def test_what_could_not_be_fused_is_left_alone(server: Server, tmp_path: Path, optimizer: str, update: str, reason: str) -> None:
    ran = run(server, tmp_path, optimizer, update=update)

    (note,) = said(ran, "not applicable")
    assert note["reason"] == reason
    assert "differs" in ran.out
    assert "True" not in ran.out.splitlines()[:24] or "already" in reason
    assert ran.trainer.faults == {}


def test_what_torch_says_of_an_update_of_one_number_is_why_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from slowstep.frameworks.torch.inside.levers import fused

    optimizer: Any = torch.optim.Adam([torch.nn.Parameter(torch.zeros(3))])
    assert fused._unable(optimizer) is None

    apart: Any = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], differentiable=True)
    assert fused._unable(apart) == "the optimizer is differentiable"
    complexes: Any = torch.optim.Adam([torch.nn.Parameter(torch.zeros(3, dtype=torch.complex64))])
    assert str(fused._unable(complexes)).startswith("torch does not fuse it (`fused=True` requires")
    monkeypatch.setattr(fused.FRAMEWORK, "has_compiled", lambda: True)
    monkeypatch.setattr(fused.FRAMEWORK, "is_compiled", lambda function: function is torch.optim.Adam.step.__wrapped__)
    assert fused._unable(optimizer) == fused.COMPILED
