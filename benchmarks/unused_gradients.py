"""What is saved where backward makes no gradients of what no optimizer holds, beside what hooks on its operations tell of these.

    python benchmarks/unused_gradients.py [--threads 2]

Each training runs with such gradients and without, in turns of a few steps; with one thread by its own clock. Prints for each what a step
takes, what of it is saved, and how much that is of what is told: `slowstep.calibration.computing` holds the usual value and bounds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from slowstep.frameworks.torch.inside._autograd.graph_size import MOST_NODES, nodes_until
from slowstep.frameworks.torch.inside._autograd.known_optimizers import KnownOptimizers
from slowstep.frameworks.torch.inside._autograd.unused_looks import UnusedLooks
from slowstep.record.recorder import Recorder
from slowstep.record.steps.held_parameters import ParameterHolders

ROUNDS, STEPS = 12, 4
PLENTY_NS = 10**12


class Training:
    """What is trained, what is not, and the loss of a step."""

    def __init__(self, trained: nn.Module, fixed: nn.Module, loss: Callable[[], Tensor]) -> None:
        self.fixed, self.loss = fixed, loss
        self.optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4)

    def step(self, look: Callable[[Tensor], None] | None = None) -> None:
        loss = self.loss()
        self.optimizer.zero_grad()
        if look is not None:
            look(loss)
        loss.backward()
        self.optimizer.step()


def convolutions(channels: int, into: int = 3) -> nn.Sequential:
    widths = (into, channels, channels, channels)
    layers = [nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in pairwise(widths)]
    return nn.Sequential(*layers)


def encoder(width: int, layers: int) -> nn.Sequential:
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
    return nn.Sequential(nn.Embedding(500, width), nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), nn.Linear(width, 5))


def dense(*widths: int) -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)))


def teacher_of_texts(width: int, layers: int, batch: int) -> Training:
    student, teacher, ids = encoder(64, 2), encoder(width, layers), torch.randint(0, 500, (batch, 32))
    return Training(student, teacher, lambda: functional.mse_loss(student(ids), teacher(ids)))


def teacher_of_pictures(channels: int, batch: int) -> Training:
    student, teacher, x = convolutions(8), convolutions(channels), torch.randn(batch, 3, 32, 32)
    return Training(student, teacher, lambda: (student(x).mean((1, 2, 3)) - teacher(x).mean((1, 2, 3))).square().mean())


def frozen_below(channels: int, batch: int) -> Training:
    backbone, head, x = convolutions(channels), nn.Linear(channels, 10), torch.randn(batch, 3, 32, 32)
    return Training(head, backbone, lambda: head(backbone(x).mean((2, 3))).square().mean())


def perceptual(channels: int, batch: int) -> Training:
    made, judge, x = convolutions(8), convolutions(channels, 8), torch.randn(batch, 3, 32, 32)
    target = torch.randn(1)
    return Training(made, judge, lambda: (judge(made(x)) - target).square().mean())


def target_network(width: int, batch: int) -> Training:
    online, target, x = dense(32, width, width, 4), dense(32, width, width, 4), torch.randn(batch, 32)
    return Training(online, target, lambda: functional.smooth_l1_loss(online(x).mean(1), 0.9 * target(x).amax(1)))


TRAININGS: dict[str, Callable[[], Training]] = {
    "teacher of texts, 160 wide": lambda: teacher_of_texts(160, 4, 16),
    "teacher of texts, 64 wide": lambda: teacher_of_texts(64, 2, 8),
    "teacher of texts, one of few": lambda: teacher_of_texts(64, 3, 2),
    "teacher of pictures, 32 channels": lambda: teacher_of_pictures(32, 16),
    "teacher of pictures, 8 channels": lambda: teacher_of_pictures(8, 8),
    "frozen below, 32 channels": lambda: frozen_below(32, 16),
    "frozen below, 8 channels": lambda: frozen_below(8, 4),
    "perceptual loss, 32 channels": lambda: perceptual(32, 16),
    "perceptual loss, 8 channels": lambda: perceptual(8, 16),
    "target network, 512 wide": lambda: target_network(512, 128),
    "target network, 64 wide": lambda: target_network(64, 32),
}


class Told:
    """What looks tell of passes of a training, as a recording takes them."""

    def __init__(self, training: Training) -> None:
        self._training, self._notes = training, list[dict[str, Any]]()
        known = KnownOptimizers()
        known.given(training.optimizer)
        shared: dict[Any, Any] = {KnownOptimizers: known, ParameterHolders: ParameterHolders()}
        self._looks = UnusedLooks(cast(Recorder, SimpleNamespace(note=self._notes.append, shared=shared.__getitem__, once_ns=0)))

    def look(self) -> None:
        """At one step."""
        self._training.step(lambda loss: self._looks.look(nodes_until(loss, MOST_NODES)[0], 0, 1, PLENTY_NS))
        self._looks.ended()

    @property
    def ns(self) -> float:
        timed = [note for note in self._notes if note.get("alone_ns") is not None]
        return statistics.median(note["alone_ns"] + note["halves_ns"] / 2 for note in timed)


def ns_of(training: Training, clock: Callable[[], int], *, frozen: bool) -> float:
    training.fixed.requires_grad_(not frozen)
    training.step()
    began = clock()
    for _ in range(STEPS):
        training.step()
    return (clock() - began) / STEPS


def main() -> None:
    torch.manual_seed(0)
    threads = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else 1
    torch.set_num_threads(threads)
    # What others do on the machine is no time of a thread's own, by which looks tell of it.
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    print(f"{'training':34} {'step ms':>8} {'saved ms':>9} {'told ms':>8} {'ratio':>6} {'gain':>5}")
    ratios = []
    for name, make in TRAININGS.items():
        training = make()
        training.step()
        told, pairs = Told(training), list[tuple[float, float]]()
        for _ in range(ROUNDS):
            pairs.append((ns_of(training, clock, frozen=False), ns_of(training, clock, frozen=True)))
            training.fixed.requires_grad_(True)
            # A gradient must be seen to stay until the next pass.
            for _ in range(2):
                told.look()
        step, saved = (statistics.median(each) for each in zip(*((a, a - b) for a, b in pairs), strict=True))
        ratios.append(saved / told.ns)
        print(
            f"{name:34} {step / 1e6:8.2f} {saved / 1e6:9.2f} {told.ns / 1e6:8.2f} {ratios[-1]:6.2f} {step / (step - saved):5.2f}",
            flush=True,
        )
    print(f"ratio {min(ratios):.2f} to {max(ratios):.2f}, {statistics.median(ratios):.2f} in the median")


if __name__ == "__main__":
    main()
