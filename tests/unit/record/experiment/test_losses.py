"""The recorded losses are those that the script prints, one an update."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from levered import TRAINING, run_always
from recorded import Ran, Server
from slowstep.record.experiment.losses import ENOUGH, UNSEEN
from slowstep.record.writing import format as fmt

pytest.importorskip("torch")

ASKED = {fmt.ENV_LOSSES: "1"}
# Loaders of numbers, and what is done with a batch: `loss(inputs, targets)` of the model, printed.
PARTS = (
    TRAINING
    + """
def parts(batch_size=4, samples=48, **loader):
    torch.manual_seed(3)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(samples, 16), torch.randn(samples, 1))
    def loss(inputs, targets):
        value = torch.nn.functional.mse_loss(model(inputs), targets)
        print(value.item().hex())
        return value
    return model, optimizer, DataLoader(data, batch_size=batch_size, **loader), loss
"""
)


def losses(ran: Ran) -> list[float]:
    """What was recorded; nothing else may have gone wrong."""
    assert (ran.code, ran.err, ran.trainer.faults) == (0, "", {})
    return [struct.unpack("<d", record.a.to_bytes(8, "little", signed=True))[0] for record in ran.trainer.of("LOSS")]


def printed(ran: Ran) -> list[float]:
    return [float.fromhex(word) for word in ran.out.split()]


def test_a_loss_an_update(server: Server, tmp_path: Path) -> None:
    ran = run_always(server, tmp_path, TRAINING + "train(lambda model, outputs, loss: print(loss.item().hex()))\n", **ASKED)

    assert losses(ran) == printed(ran)
    assert len(losses(ran)) == 24
    assert {record.b for record in ran.trainer.of("LOSS")} == {1}


def test_micro_batches_are_averaged(server: Server, tmp_path: Path) -> None:
    main = """
model, optimizer, loader, loss = parts()
for number, (inputs, targets) in enumerate(loader):
    loss(inputs, targets).backward()
    if number % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()
"""
    ran = run_always(server, tmp_path, PARTS + main, **ASKED)

    values = printed(ran)
    assert losses(ran) == pytest.approx([sum(values[at : at + 3]) / 3 for at in range(0, 12, 3)], rel=1e-12)
    assert {record.b for record in ran.trainer.of("LOSS")} == {3}


def test_what_a_scaler_multiplied_is_divided_again_and_a_skipped_update_counts(server: Server, tmp_path: Path) -> None:
    main = """
model, optimizer, loader, loss = parts()
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for number, (inputs, targets) in enumerate(loader):
    optimizer.zero_grad()
    scaler.scale(loss(inputs, targets)).backward()
    if number == 4:
        model.first.weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
"""
    ran = run_always(server, tmp_path, PARTS + main, **ASKED)

    assert len(ran.trainer.of("UPDATE")) == 12
    assert losses(ran) == pytest.approx(printed(ran), rel=1e-7)


@pytest.mark.slow
def test_of_two_losses_only_the_scaled_one_is_divided(server: Server, tmp_path: Path) -> None:
    main = """
model, optimizer, loader, loss = parts()
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
for inputs, targets in loader:
    optimizer.zero_grad()
    scaler.scale(loss(inputs, targets)).backward()
    loss(inputs, targets).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    ran = run_always(server, tmp_path, PARTS + main, **ASKED)

    values = printed(ran)
    assert losses(ran) == pytest.approx([sum(values[at : at + 2]) / 2 for at in range(0, 24, 2)], rel=1e-7)


def test_a_loss_that_is_not_finite_is_recorded_as_it_is(server: Server, tmp_path: Path) -> None:
    main = """
model, optimizer, loader, loss = parts()
for number, (inputs, targets) in enumerate(loader):
    (loss(inputs, targets) * (float("nan") if number == 7 else 1.0)).backward()
    optimizer.step()
"""
    ran = run_always(server, tmp_path, PARTS + main, **ASKED)

    assert [number for number, loss in enumerate(losses(ran)) if loss != loss][:1] == [7]


def test_a_backward_of_no_scalar_and_one_inside_another_have_no_loss_of_their_own(server: Server, tmp_path: Path) -> None:
    main = """
from torch.utils.checkpoint import checkpoint
model, optimizer, loader, loss = parts()
for number, (inputs, targets) in enumerate(loader):
    optimizer.zero_grad()
    if number % 2:
        model(inputs).backward(torch.ones(4, 1))
    else:
        inputs.requires_grad_()
        value = checkpoint(model, inputs, use_reentrant=True).mean()
        print(value.item().hex())
        value.backward()
    optimizer.step()
"""
    ran = run_always(server, tmp_path, PARTS + main, **ASKED)

    found = losses(ran)
    assert [record.b for record in ran.trainer.of("LOSS")] == [1, 0] * 6
    assert found[::2] == printed(ran)


@pytest.mark.slow
def test_the_second_optimizer_of_a_step_ends_no_step(server: Server, tmp_path: Path) -> None:
    main = """
model, optimizer, loader, loss = parts()
other = torch.optim.SGD(model.second.parameters(), lr=0.001)
for inputs, targets in loader:
    optimizer.zero_grad()
    loss(inputs, targets).backward()
    optimizer.step()
    loss(inputs, targets).backward()
    other.step()
"""
    ran = run_always(server, tmp_path, PARTS + main, **ASKED)

    values = printed(ran)
    means = [values[0], *(sum(values[at : at + 2]) / 2 for at in range(1, 23, 2))]
    assert losses(ran) == pytest.approx(means, rel=1e-12)


@pytest.mark.slow
def test_the_input_of_two_runs_can_be_told_apart(server: Server, tmp_path: Path) -> None:
    main = """
import os
model, optimizer, loader, loss = parts(shuffle=True)
torch.manual_seed(int(os.environ["ORDER"]))
for inputs, targets in loader:
    loss(inputs, targets).backward()
    optimizer.step()
"""
    sums = []
    for name, order in (("one", "1"), ("same", "1"), ("other", "2")):
        (tmp_path / name).mkdir()
        ran = run_always(server, tmp_path / name, PARTS + main, ORDER=order, **ASKED)
        sums.append([record.c for record in ran.trainer.of("LOSS")])
    one, same, other = sums
    assert one == same
    assert one != other
    assert len(set(one)) == 12
    assert min(one) >= 0


@pytest.mark.slow
def test_nothing_is_hooked_and_no_loss_is_read_where_it_was_not_asked_for(server: Server, tmp_path: Path) -> None:
    main = """
read = []
own = torch.Tensor.item
torch.Tensor.item = lambda tensor: (read.append(1), own(tensor))[1]
train(lambda *_: None)
print(len(read), torch.autograd.backward.__code__.co_filename, torch.amp.GradScaler.scale.__code__.co_filename)
"""
    ran = run_always(server, tmp_path, TRAINING + main)
    (tmp_path / "asked").mkdir()
    asked = run_always(server, tmp_path / "asked", TRAINING + main, **ASKED)

    count, backward, scale = ran.out.split()
    # The loader's own, at its start.
    assert (count, Path(backward).name, Path(scale).name) == ("1", "backward.py", "grad_scaler.py")
    assert ran.trainer.of("LOSS") == []
    count, backward, scale = asked.out.split()
    assert (count, Path(backward).name, Path(scale).name) == ("25", "losses.py", "_scaling.py")


@pytest.mark.slow
def test_where_no_backward_begins_at_a_loss_that_is_said_once(server: Server, tmp_path: Path) -> None:
    main = """
model, optimizer, loader, loss = parts()
for inputs, targets in loader:
    model(inputs).backward(torch.ones(4, 1))
    optimizer.step()
"""
    ran = run_always(server, tmp_path, PARTS + main, **ASKED, **{fmt.ENV_EXPERIMENT: "1"})

    assert {record.b for record in ran.trainer.of("LOSS")} == {0}
    assert [(note["updates"], note["framework"]) for note in ran.trainer.noted(UNSEEN)] == [(ENOUGH, "torch")]
