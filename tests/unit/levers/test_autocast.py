"""The lever `autocast` on real trainings: 16 bits inside the model while it is on, nothing of it while it is off."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from few import few
from levered import TRAINING, run_always, run_planned, said, steps_of
from recorded import Ran, Server
from slowstep.frameworks.torch.inside.levers import autocast
from slowstep.record.writing import format as fmt

pytest.importorskip("torch")

DTYPES = TRAINING + "train(lambda model, outputs, loss: print(model.inside, outputs.dtype, loss.dtype))\n"
BLOCKS = (0, 2, 1, 2, 0)
SCALED = """
scaler, own = torch.amp.GradScaler("cpu"), torch.Tensor.backward
torch.Tensor.backward = lambda loss: own(scaler.scale(loss))
"""


def refused(ran: Ran) -> str:
    """Why it was not applicable; nothing was changed then."""
    (note,) = said(ran, "not applicable")
    assert said(ran, "on") == []
    assert ran.trainer.faults == {}
    assert ran.code == 0, ran.err
    return str(note["reason"])


@pytest.mark.slow
def test_products_are_in_16_bits_in_its_blocks_and_in_no_others(server: Server, tmp_path: Path) -> None:
    ran = run_planned(server, tmp_path, DTYPES, "autocast=bf16", blocks=BLOCKS, steps=3)

    assert (ran.code, ran.err) == (0, "")
    lines = [line.split() for line in ran.out.splitlines()]
    assert {tuple(types[1:]) for types in lines} == {("torch.float32", "torch.float32")}
    changed = [number for number, types in enumerate(lines) if types[0] == "torch.bfloat16"]
    # The first step is over when the plan begins to be walked, and two more are seen before the lever is ready.
    arms = [record.extra for record in ran.trainer.of("ARM")]
    assert len(changed) == len(steps_of(ran, 2)) == 8
    assert changed == [number + 1 for number, arm in enumerate(arms) if arm == 2]
    effect = said(ran, "effect")[-1]
    assert effect["effect"] == 8
    assert effect["facts"] == {"autocast_device": "cpu", "autocast_dtype": "bfloat16"}


# Two updates a step, the second with weights that the first has changed; UNDER is where a script would put autocast.
TWICE = (
    TRAINING
    + """
torch.manual_seed(3)
model, under_backward = Model(), set()
model.second.weight.register_hook(lambda gradient: under_backward.add(torch.is_autocast_enabled("cpu")))
one, two = (torch.optim.SGD(model.parameters(), lr=0.05) for _ in range(2))
loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randn(96, 1)), batch_size=4)
for number, (inputs, targets) in enumerate(loader):
    for optimizer in (one, two):
        for part in (inputs[:2], inputs[2:]):
            UNDER
                loss = torch.nn.functional.mse_loss(model(part), targets[:2])
            loss.backward()
            print(loss.item().hex())
        optimizer.step()
        optimizer.zero_grad()
print(under_backward)
"""
)


@pytest.mark.slow
def test_it_computes_what_the_script_would_with_autocast_around_model_and_loss(server: Server, tmp_path: Path) -> None:
    for name in ("lever", "by-hand", "plain"):
        (tmp_path / name).mkdir()

    ran = run_always(server, tmp_path / "lever", TWICE.replace("UNDER", "if True:"), "autocast")

    first = said(ran, "on")[0]["updates"]
    under = f"with torch.autocast('cpu', torch.bfloat16, enabled=number >= {first}):"
    by_hand = run_always(server, tmp_path / "by-hand", TWICE.replace("UNDER", under))
    plain = run_always(server, tmp_path / "plain", TWICE.replace("UNDER", "if True:"))
    assert ran.out == by_hand.out
    assert ran.out.splitlines()[-1] == "{False}"
    assert ran.out.splitlines()[: 4 * first] == plain.out.splitlines()[: 4 * first]
    assert ran.out.splitlines()[4 * first] != plain.out.splitlines()[4 * first]


def test_what_it_replaces_is_put_back_when_the_plan_is_done(server: Server, tmp_path: Path) -> None:
    watched = """
import torch
def replaced():
    return [torch.nn.Module.__call__, torch.autograd.backward, torch.autocast.__enter__, torch.amp.GradScaler.scale]
before = replaced()
"""
    after = "\nprint(replaced() == before, torch.is_autocast_enabled('cpu'))\n"
    ran = run_planned(server, tmp_path, watched + DTYPES + after, "autocast", "autocast=bf16", blocks=(0, 2, 3, 0), steps=2)

    assert ran.out.splitlines()[-1] == "True False"
    assert "torch.bfloat16" in ran.out


# Forwards are recorded from the third update of a loop without a loader on (frameworks/torch/inside/module.py): around the lever's own.
IN_MEMORY = (
    TRAINING
    + """
own, was_changed = torch.nn.Module.__call__, False
samples, targets, model = torch.randn(96, 16), torch.randn(96, 1), Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(24):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(samples[step::24]), targets[step::24]).backward()
    optimizer.step()
    print(model.inside)
    was_changed |= torch.nn.Module.__call__ is not own
print(was_changed, torch.nn.Module.__call__ is own)
"""
)


@pytest.mark.slow
def test_it_gets_on_in_a_loop_without_a_loader_and_nothing_of_it_stays(server: Server, tmp_path: Path) -> None:
    ran = run_always(server, tmp_path, IN_MEMORY, "autocast=bf16", **{fmt.ENV_STEPS: "20"})

    assert (ran.code, ran.err) == (0, "")
    *inside, at_end = ran.out.splitlines()
    (on,) = said(ran, "on")
    # Whether the recording is over is seen in a step behind its last one.
    assert inside[:20] == ["torch.float32"] * on["updates"] + ["torch.bfloat16"] * (20 - on["updates"])
    assert inside[-1] == "torch.float32"
    assert ran.trainer.of("FORWARD")
    assert at_end == "True True"


@pytest.mark.parametrize(
    ("before", "reason"),
    few(
        [
            ("torch.set_default_dtype(torch.float64)", "not all parameters are float32 (float64)"),
            ("Model.forward = torch.autocast('cpu', torch.bfloat16)(Model.forward)", "the script uses torch.autocast itself"),
            (
                SCALED,
                "the script uses a GradScaler itself",
            ),
        ],
        every=3,
    ),
    ids=["float64", "autocast", "GradScaler"],
)
def test_it_is_refused_where_it_has_no_meaning(server: Server, tmp_path: Path, before: str, reason: str) -> None:
    ran = run_always(server, tmp_path, TRAINING + before + "\ntrain(lambda *_: None)\n", "autocast=bf16")

    assert refused(ran) == reason


# The server that scripts are forked from has built optimizers, and torch keeps the mark: without it this script has none.
BY_HAND = (
    TRAINING
    + """
for optimizer in torch.optim.Optimizer.__subclasses__():
    if hasattr(optimizer.step, "hooked"):
        optimizer.step = optimizer.step.__wrapped__

def train_by_hand(model, *teachers):
    loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randn(96, 1)), batch_size=4)
    for inputs, targets in loader:
        for teacher in teachers:
            teacher(inputs.double())
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.05 * parameter.grad
                parameter.grad = None
        print(getattr(model, "inside", None))
"""
)


TEACHERS = ", torch.nn.Linear(16, 1).double().requires_grad_(False), torch.nn.Flatten()"


@pytest.mark.parametrize("teachers", few(["", TEACHERS], every=2), ids=["alone", "taught"])
def test_of_updates_by_hand_the_modules_tell_where_the_parameters_are(server: Server, tmp_path: Path, teachers: str) -> None:
    ran = run_always(server, tmp_path, BY_HAND + f"train_by_hand(Model(){teachers})", "autocast=bf16")

    assert (ran.code, ran.err) == (0, "")
    (on,) = said(ran, "on")
    assert 0 < ran.out.split().count("torch.bfloat16") <= 24 - on["updates"]
    assert ran.out.split()[-1] == "torch.bfloat16"
    assert said(ran, "effect")[-1]["facts"] == {"autocast_device": "cpu", "autocast_dtype": "bfloat16"}


PLAIN = """
class Plain(torch.nn.Module):
    weight = torch.ones(16, 1, requires_grad=True)
    def forward(self, inputs):
        return inputs @ self.weight
train_by_hand(Plain())
"""


@pytest.mark.parametrize(
    ("call", "reason"),
    few(
        [
            ("torch.set_default_dtype(torch.float64); train_by_hand(Model())", "not all parameters are float32 (float64)"),
            (PLAIN, "the script updates by hand, and the modules that it calls show no parameters"),
        ],
        every=2,
    ),
    ids=["float64", "no parameters"],
)
def test_updates_by_hand_of_other_parameters_are_refused(server: Server, tmp_path: Path, call: str, reason: str) -> None:
    assert refused(run_always(server, tmp_path, BY_HAND + call, "autocast=bf16")) == reason


@pytest.mark.slow
def test_a_context_that_is_switched_off_is_no_use_of_autocast(server: Server, tmp_path: Path) -> None:
    off = "Model.forward = torch.autocast('cpu', enabled=False)(Model.forward)\n"
    ran = run_always(server, tmp_path, TRAINING + off + "train(lambda *_: None)\n", "autocast")

    assert len(said(ran, "on")) == 1


@pytest.mark.slow
def test_half_precision_is_refused_on_a_processor(server: Server, tmp_path: Path) -> None:
    assert refused(run_always(server, tmp_path, DTYPES, "autocast=fp16")) == "on a processor only bf16 is worth a try"


@pytest.mark.slow
def test_a_value_that_cannot_be_meant_is_said(server: Server, tmp_path: Path) -> None:
    ran = run_always(server, tmp_path, DTYPES, "autocast=int8")

    assert [note["reason"] for note in said(ran, "failed")] == ["ValueError: it is autocast=bf16, or autocast=fp16 on an accelerator"]
    assert "bfloat16" not in ran.out


def test_a_model_that_does_not_bear_it_trains_on_without(server: Server, tmp_path: Path) -> None:
    picky = """
class Picky(Model):
    def forward(self, inputs):
        hidden = self.first(inputs)
        if hidden.dtype != torch.float32:
            raise TypeError("float32 only")
        return self.second(hidden)
train(lambda model, outputs, loss: print(loss.item()), model=Picky())
"""
    ran = run_always(server, tmp_path, TRAINING + picky, "autocast")

    (tmp_path / "plain").mkdir()
    plain = run_always(server, tmp_path / "plain", TRAINING + picky)
    assert (ran.code, ran.out, ran.err) == (0, plain.out, "")
    assert [note["reason"] for note in said(ran, "failed")] == ["TypeError: float32 only"]


@pytest.mark.slow
def test_outputs_in_lists_and_mappings_come_back_in_32_bits(server: Server, tmp_path: Path) -> None:
    nested = """
import collections
Pair = collections.namedtuple("Pair", "all other")
class Nested(Model):
    def forward(self, inputs):
        out = super().forward(inputs)
        return {"pair": Pair([out], None), "kept": "text", "ids": torch.arange(3)}
def leaves(outputs):
    return outputs["pair"].all[0].dtype, outputs["kept"], outputs["ids"].dtype, type(outputs["pair"]).__name__
"""
    body = TRAINING.replace("mse_loss(outputs, targets)", "mse_loss(outputs['pair'].all[0], targets)")
    ran = run_always(
        server, tmp_path, body + nested + "train(lambda m, outputs, loss: print(m.inside, *leaves(outputs)), model=Nested())\n", "autocast"
    )

    assert (ran.code, ran.err) == (0, "")
    assert set(ran.out.splitlines()[5:]) == {"torch.bfloat16 torch.float32 text torch.int64 Pair"}


@pytest.mark.slow
def test_data_made_on_the_training_thread_and_validation_stay_as_they_are(server: Server, tmp_path: Path) -> None:
    script = (
        TRAINING
        + """
class Blurred(torch.utils.data.Dataset):
    def __len__(self):
        return 48
    def __getitem__(self, index):
        made.append((torch.eye(16) @ torch.eye(16)).dtype)
        return torch.eye(16)[0], torch.zeros(1)
made, seen, validated = [], [], []
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for inputs, targets in DataLoader(Blurred(), batch_size=4):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    seen.append(model.inside)
    optimizer.step()
    with torch.no_grad():
        model(inputs)
    validated.append(model.inside)
print(set(made), set(validated), seen.count(torch.bfloat16))
"""
    )
    ran = run_always(server, tmp_path, script, "autocast")

    first = said(ran, "on")[0]["updates"]
    assert ran.out.strip() == f"{{torch.float32}} {{torch.float32}} {12 - first}"


@pytest.mark.parametrize(
    ("device", "value", "is_able", "reason"),
    [
        ("cuda", "bf16", True, None),
        ("cuda", "fp16", False, None),
        ("cuda", "bf16", False, "the accelerator has no bfloat16: try autocast=fp16"),
        ("mps", "bf16", True, "the parameters are on mps"),
    ],
)
def test_what_a_device_can_do_decides(monkeypatch: pytest.MonkeyPatch, device: str, value: str, is_able: bool, reason: str | None) -> None:
    cuda = SimpleNamespace(is_bf16_supported=lambda *, including_emulation: is_able)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))

    assert autocast._unable(device, value) == reason
