"""What is known of one training, by topic: all that rules, reports and exporters read of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar, cast

import numpy as np

from slowstep.analyses.after_update.after_update_topic import AfterUpdateTopic
from slowstep.analyses.completeness import Completeness
from slowstep.analyses.compute.compute_topic import ComputeTopic
from slowstep.analyses.device.device_topic import DeviceTopic
from slowstep.analyses.input.input_topic import InputTopic
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.saves import Saves
from slowstep.analyses.machine.machine_topic import MachineTopic
from slowstep.analyses.over_time.over_time import OverTime
from slowstep.analyses.python.python_topic import PythonTopic
from slowstep.analyses.replay.replay_topic import ReplayTopic
from slowstep.analyses.sharing.sharing import Sharing
from slowstep.analyses.steps.captures import Capture
from slowstep.analyses.steps.marks_topic import MarksTopic
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_topic import TrainingTopic
from slowstep.faults import Fault, Faulty
from slowstep.timeline.coverage import KindCoverage
from slowstep.timeline.trace import TraceFacts

T = TypeVar("T")
Makers = Mapping[str, Callable[[], Any]]


class NotProvided(LookupError):
    """A topic was asked for that nothing tells of this training."""

    def __init__(self, topic: str, provided: frozenset[str]) -> None:
        super().__init__(f"nothing measures the topic {topic!r} here: there are {', '.join(sorted(provided))}; ask has({topic!r}) first")


class Topic(Generic[T]):
    """One topic, as an attribute of `Measurements`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, m: Measurements, owner: type) -> T:
        return cast("T", m.topic(self._name))


class Measurements:
    """One training as measured. A topic is measured when it is first asked for, once.

    Which topics there are depends on what was recorded: asking for another one raises `NotProvided`. Reading what an analysis of
    `faults` should have found raises `Faulty`: all else stands.
    """

    training = Topic[TrainingTopic]()
    steps = Topic[Steps]()
    marks = Topic[MarksTopic]()
    ledger = Topic[Ledger]()
    input = Topic[InputTopic]()
    compute = Topic[ComputeTopic]()
    after_update = Topic[AfterUpdateTopic]()
    python = Topic[PythonTopic]()
    device = Topic[DeviceTopic]()
    saves = Topic[Saves]()
    sharing = Topic[Sharing]()
    machine = Topic[MachineTopic]()
    over_time = Topic[OverTime]()
    replay = Topic[ReplayTopic]()
    trainer = Topic[Trainer]()
    coverage = Topic[Mapping[str, KindCoverage]]()
    completeness = Topic[Completeness]()
    facts = Topic[TraceFacts]()
    captured = Topic["CapturedWindow"]()

    def __init__(self, makers: Makers, faults: list[Fault]) -> None:
        """Of what measures each topic, in the order in which `settle` does; `faults` grows with those that are met in measuring."""
        self._makers = dict(makers)
        self._found: dict[str, Any] = {}
        self._faults = faults

    def topic(self, name: str) -> Any:
        """A topic by name, measured where it is not yet. Raises NotProvided, or Faulty where its measuring has failed."""
        if name in self._makers:
            self._found[name] = self._makers[name]()
            del self._makers[name]
        if name not in self._found:
            raise NotProvided(name, self.provided)
        found = self._found[name]
        if isinstance(found, Fault):
            raise Faulty(found)
        return found

    @property
    def provided(self) -> frozenset[str]:
        """The topics that there are."""
        return frozenset((*self._makers, *self._found))

    def has(self, *topics: str) -> bool:
        """Whether there are all of these topics."""
        return self.provided.issuperset(topics)

    @property
    def are_steps_marked(self) -> bool:
        """Whether steps are those that a profiler marked: an excerpt, too short to tell how much the speed varies, in which no samples are
        counted, and which named ranges divide into parts without end.
        """
        return self.has("marks")

    def settle(self) -> Self:
        """Measure what is left, and let go of what it is measured from: so that of many ranks only what was measured is held at once."""
        for name in tuple(self._makers):
            self._found[name] = self._makers[name]()
        self._makers.clear()
        return self

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Errors of slowstep's own in its analyses, of all of them: this measures what is left."""
        self.settle()
        return tuple(self._faults)

    @property
    def step_ns(self) -> Floats:
        """Length of each step."""
        return self.steps.duration_ns.astype(np.float64)

    @property
    def mean_step_ns(self) -> float:
        """Length of the mean step; 0 without steps."""
        return self.steps.length_ns / max(self.steps.count, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedWindow:
    """The topic `captured`: a second window of the same training, of the few steps that a profiler captured, which are longer for that.

    `m` is what its trace tells; None where there is none, or where it is `unreadable`, and why.
    """

    capture: Capture
    m: Measurements | None = None
    unreadable: str | None = None

    @property
    def steps(self) -> str:
        """The first and the last of its steps."""
        return f"{self.capture.first}-{self.capture.last}"

    @property
    def device(self) -> Measurements | None:
        """What is measured of it, if that has whole steps and work on a device, of which hooks see nothing."""
        return self.m if self.m is not None and self.m.device.seen and self.m.steps.length_ns else None


TOPICS: Final = frozenset(name for name, value in vars(Measurements).items() if isinstance(value, Topic))
