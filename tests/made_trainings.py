"""Small real trainings that walk a plan in this process: a recorder that listens, torch's own loaders, and what came of it.

The effects are known because a sample takes a known time (a sleep), or a step does.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from recorded import make_folder
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.readings import ExperimentSteps, StepReader
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.injection.install_hooks import attach, detach
from slowstep.record.recorder import Recorder
from slowstep.record.writing import format as contract

# As in the experiments' own plan: the training as it is comes first.
AS_IS = 0
# Steps before a training posts the plan.
LEAD_IN = 20


class Samples(Dataset[torch.Tensor]):
    """Samples that hold their own index, each made in a known time."""

    def __init__(self, count: int = 4096, sample_s: float = 0.0) -> None:
        self.count, self.sample_s = count, sample_s

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.sample_s:
            time.sleep(self.sample_s)
        return torch.full((4,), float(index))


def plan_of(levers: Iterable[str | tuple[str, ...]], blocks: Iterable[int], steps: int = 5, **budget: float) -> Plan:
    """A plan with the arm `as-is` and one for each lever, or for several together."""
    named = [(lever,) if isinstance(lever, str) else lever for lever in levers]
    arms = [Arm(name="+".join(one), levers=tuple(map(parse_spec, one))) for one in named]
    return Plan(seed=0, steps=steps, arms=(Arm(name="as-is"), *arms), blocks=tuple(blocks), **budget)


@dataclass
class Walked:
    """What a training left: the steps of the plan, what levers said, and every batch that the script got."""

    folder: Path
    done: bool = False
    batches: list[Any] = field(default_factory=list)
    pid: int = field(default_factory=os.getpid)

    @property
    def steps(self) -> ExperimentSteps:
        (path,) = self.folder.glob(f"{self.pid}-*.rec")
        return StepReader(path).read()

    @property
    def notes(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for path in self.folder.glob("*.jsonl") for line in path.read_text().splitlines()]
        return [line for line in lines if line["kind"] == "lever"]

    def states(self, arm: int = 1) -> list[str]:
        """What became of an arm, one state after the other."""
        return [note["state"] for note in self.notes if note["arm"] == arm]

    def became(self, arm: int = 1) -> list[str]:
        """The same, each state once: what an arm did is said after each of its blocks."""
        return list(dict.fromkeys(self.states(arm)))

    def given(self, arm: int, lead_in: int = LEAD_IN) -> list[Any]:
        """The batches that the script got in an arm's steps, those included in which it settled, where it kept all of them."""
        # The first step that is recorded follows the one in which the plan was posted.
        return [batch for batch, of in zip(self.batches[lead_in:], self.steps.arm.tolist(), strict=False) if of == arm]

    def counted(self, arm: int, lead_in: int = LEAD_IN) -> list[Any]:
        """The same of its counted steps alone: while a mocked loader settles, one of the loader's own batches may be received."""
        steps = zip(self.batches[lead_in:], self.steps.arm.tolist(), self.steps.settling.tolist(), strict=False)
        return [batch for batch, of, settling in steps if of == arm and not settling]

    def reason(self, arm: int = 1) -> str:
        """Why an arm was given up."""
        (reason,) = [note["reason"] for note in self.notes if note["arm"] == arm and "reason" in note]
        return str(reason)

    def effect(self, arm: int = 1) -> tuple[int, dict[str, Any]]:
        """How often an arm changed something, and its facts."""
        *_, note = [note for note in self.notes if note["arm"] == arm and note["state"] == "effect"]
        return note["effect"], note["facts"]

    @property
    def health(self) -> dict[str, int]:
        """What was counted as lost or doubtful."""
        return {line["name"]: line["count"] for line in self._lost()}

    @property
    def faults(self) -> dict[str, str]:
        """What is to be done about each, without what a busy machine causes: of a fault of ours this names the error and its place."""
        return {line["name"]: line["remedy"] for line in self._lost() if line["name"] != "unsettled-block"}

    def _lost(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for path in self.folder.glob("*.jsonl") for line in path.read_text().splitlines()]
        return [line for line in lines if line["kind"] == "health" and line["name"] != "late-stacks"]

    def step_ns(self, arm: int) -> float:
        """The mean of an arm's counted steps."""
        steps = self.steps
        return float(np.mean(steps.ns[(steps.arm == arm) & ~steps.settling]))

    def gain(self, arm: int = 1) -> float:
        """The throughput of an arm by that of the training as it is."""
        return self.step_ns(AS_IS) / self.step_ns(arm)


class Script:
    """The training's side: a model, an optimizer, and a count of steps after which it stops whatever the plan does."""

    def __init__(self, walked: Walked, page: Any, limit: int) -> None:
        self._walked, self._page, self._left = walked, page, limit
        self._model = torch.nn.Linear(4, 1)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.0)

    def step(self, inputs: Any, work_s: float = 0.0) -> bool:
        """Train on a batch. False when the plan is done, or the limit is reached."""
        self._optimizer.zero_grad()
        if work_s:
            time.sleep(work_s)
        self._model(inputs).mean().backward()
        self._optimizer.step()
        self._left -= 1
        self._walked.done = self._page[contract.CONTROL_PLAN] == contract.PLAN_DONE
        return not self._walked.done and self._left > 0

    def train(self, loader: Any, work_s: float = 0.0, keep: bool = False) -> None:
        """Epoch after epoch."""
        more = True
        while more:
            for batch in loader:
                if keep:
                    self._walked.batches.append(batch)
                if not (more := self.step(batch, work_s)):
                    break


@contextlib.contextmanager
def recording(folder: Path) -> Iterator[Recorder]:
    """A recorder as an experiment's process has it, with the hooks of torch; afterwards they are gone."""
    folder.parent.mkdir(exist_ok=True)
    recorder = Recorder(make_folder(folder), level=0)
    recorder.experiment = True
    attach(recorder)
    try:
        yield recorder
    finally:
        recorder.leave()
        detach(recorder)
        # The page stays mapped as long as anything holds the recorder: later children of this process would take it for theirs.
        (folder / contract.CONTROL_FILE).unlink()


def walk(folder: Path, plan: Plan, train: Callable[[Script], Any], *, lead_in: int = LEAD_IN, limit: int = 2000) -> Walked:
    """Run a training that posts the plan itself after some steps."""
    walked = Walked(folder)
    with recording(folder) as recorder:
        (folder / contract.PLAN_FILE).write_text(plan.dumps())
        script = Script(walked, recorder.page.bytes, limit)
        step = script.step
        taken = 0

        def posting(inputs: Any, work_s: float = 0.0) -> bool:
            nonlocal taken
            taken += 1
            if taken == lead_in:
                recorder.page.bytes[contract.CONTROL_PLAN] = contract.PLAN_POSTED
            return step(inputs, work_s)

        script.step = posting  # type: ignore[method-assign]
        train(script)
    return walked


def loader(dataset: Any = None, batch_size: int = 4, **arguments: Any) -> DataLoader[Any]:
    """A loader of torch's own."""
    return DataLoader(Samples() if dataset is None else dataset, batch_size=batch_size, **arguments)
