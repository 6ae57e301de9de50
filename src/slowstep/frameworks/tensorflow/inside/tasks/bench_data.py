"""Measures the tf.data pipeline that feeds the training alone: as it is, cut after each of its stages, and its dearest map with other
numbers of calls at once.

What is found goes into `task` notes: `loader` (what it is), `begins` (what is done next, and for how long), `drain` (one reading of the
whole pipeline), `prefix` (one of its first stages, up to the one with the number `stage`), `calls` (the same with so many calls at once of
that one, -1: as many as TensorFlow chooses); see loader_reading.Drained of all three.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._pipelines import Pipelines
from slowstep.frameworks.tensorflow.inside.tasks._calls import counts, with_calls
from slowstep.frameworks.tensorflow.inside.tasks._drain import PipelineDrain
from slowstep.frameworks.tensorflow.inside.tasks._prefixes import Prefix, prefixes_of, why_not
from slowstep.record.experiment.loader_reading import AUTOTUNE, LEAST_BATCHES, Drained
from slowstep.record.experiment.tasks import TaskImplementation
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.record.system.facts import cores_to_use

NAME: Final = "bench_data"
NO_PIPELINE: Final = "no tf.data pipeline was seen to feed this training"
# Of the time for all: the whole pipeline, its first stages, and the rest for numbers of calls.
_OWN_SHARE, _CUT_SHARE = 0.2, 0.5
# What the starts of iterators and slow batches take beside the time: beyond so many times the time nothing more is begun.
_SPILL: Final = 1.5
# No reading is shorter; so many requests are made in any, in three times its time.
_LEAST_S: Final = 0.2
_LEAST_REQUESTS: Final = 4
# A window is as many elements as the whole pipeline makes in so long, but no more than may be kept.
_WINDOW_NS: Final = 20_000_000
_MOST_IN_WINDOW: Final = 64
# The training's own pipeline fills its buffers first, for at most so long; it rests when this process uses less than a fifth of a core.
_QUIET_NS: Final = 5_000_000_000
_LOOK_S: Final = 0.05
_RESTS: Final = 0.2


def run(training: Training, arguments: dict[str, Any]) -> None:
    """Measure, for about `seconds`. `parts`: whether the pipeline is cut."""
    dataset = training.recorder.shared(Pipelines).feeding()
    prefixes = [] if dataset is None else prefixes_of(dataset)
    reason = why_not(prefixes) if prefixes else NO_PIPELINE
    if reason is not None:
        _note(training, "loader", reason=reason)
        return
    _note(training, "loader", reason=None, **_described(prefixes))
    _let_it_rest()
    _PipelineBench(training, prefixes, float(arguments["seconds"])).run(cut=bool(arguments["parts"]))


@dataclass(frozen=True, slots=True)
class _Cut:
    """The stages up to the one with a number; `calls`: it makes so many calls at once, None: as the script has it."""

    number: int
    calls: int | None = None


class _PipelineBench:
    def __init__(self, training: Training, prefixes: list[Prefix], seconds: float) -> None:
        self._training, self._prefixes, self._seconds = training, prefixes, seconds
        self._until_ns = now() + int(_SPILL * seconds * 1e9)
        # What the last reading of each prefix took until its first element.
        self._starts_ns = [0] * len(prefixes)
        self._window = 0
        self._element_ns: dict[int, float] = {}
        self._samples: dict[int, float] = {}

    def run(self, *, cut: bool) -> None:
        """The pipeline as it is comes first."""
        whole, cut = len(self._prefixes) - 1, cut and len(self._prefixes) > 1
        own = self._drain(_Cut(whole), seconds=self._seconds * (_OWN_SHARE if cut else 1), turn=0)
        if not cut or own.reason is not None:
            return
        self._window = _window(own)
        self._read_in_turns([_Cut(number) for number in range(whole + 1)], self._seconds * (1 - _OWN_SHARE - _CUT_SHARE))
        if (dearest := self._dearest_map()) is not None:
            own = self._prefixes[dearest].stage["calls"]
            self._read_in_turns([_Cut(dearest, calls) for calls in counts(cores_to_use(), own)], 0.0)

    def _read_in_turns(self, cuts: list[_Cut], keep_s: float) -> None:
        """All of them, and back: what drifts meanwhile is in all alike. So much of the time is kept for what follows."""
        readings = [(cut, 1) for cut in cuts] + [(cut, 2) for cut in reversed(cuts)]
        for done, (cut, turn) in enumerate(readings):
            left_s = (self._until_ns - now()) / 1e9 - self._seconds * (_SPILL - 1) - keep_s
            self._drain(cut, seconds=max(left_s / (len(readings) - done), _LEAST_S), turn=turn)

    def _dearest_map(self) -> int | None:
        """The number of the map that makes a sample take longest, by the readings of the stages up to it and before it."""
        added = {}
        for number, prefix in enumerate(self._prefixes):
            known = number and {number, number - 1} <= self._element_ns.keys()
            # Others are set beside the script's own number: where that is unknown none is tried.
            if known and prefix.stage["calls"] is not None:
                samples = self._samples.get(number, 1.0)
                added[number] = (self._element_ns[number] - self._element_ns[number - 1]) / samples
        return max(added, key=lambda number: added[number], default=None)

    def _drain(self, cut: _Cut, *, seconds: float, turn: int) -> Drained:
        """One reading of the stages up to one."""
        prefix, is_whole = self._prefixes[cut.number], cut.number == len(self._prefixes) - 1 and cut.calls is None
        kind, learned = prefix.stage["kind"], dict[str, Any]()
        drained = Drained(workers=0, reason=self._no_time_left(cut.number))
        if drained.reason is None:
            doing = "all stages" if is_whole else f"the stages up to {kind}"
            _note(self._training, "begins", doing=doing + _with(cut.calls), seconds=seconds, at_ns=now())
            drain = PipelineDrain(
                partial(self._dataset, cut),
                kind,
                seconds=seconds,
                until_ns=self._until_ns,
                window=self._window if prefix.holds_single else 0,
                least=_LEAST_REQUESTS if turn else LEAST_BATCHES,
            )
            drained = drain.run()
            learned = {"inputs_per_element": drain.inputs_per_element} | ({"runs_ahead": drain.runs_ahead} if is_whole else {})
            self._starts_ns[cut.number] = max(drained.starts_ns, default=0)
            if cut.calls is None:
                self._learn(cut.number, drained)
        part = "drain" if is_whole else "prefix" if cut.calls is None else "calls"
        _note(self._training, part, stage=cut.number, calls=cut.calls, turn=turn, **learned, **asdict(drained))
        return drained

    def _dataset(self, cut: _Cut) -> Any:
        prefix = self._prefixes[cut.number]
        return prefix.dataset if cut.calls is None else with_calls(prefix.last, cut.calls).with_options(prefix.dataset.options())

    def _learn(self, number: int, drained: Drained) -> None:
        """What an element of these stages takes, and how many samples it has."""
        ns, count, samples, _ = _sums(drained)
        if count:
            self._element_ns[number] = ns / count
            # The first dimension of a single sample is one of its own: the rows of an image.
            is_known = samples > 0 and not self._prefixes[number].holds_single
            self._samples[number] = samples / count if is_known else 1.0

    def _no_time_left(self, number: int) -> str | None:
        return None if now() + self._starts_ns[number] < self._until_ns else "left out: the time is over (a larger --budget)"


def _window(own: Drained) -> int:
    """How many elements are asked for at once of stages before batches are made, by the pace of the whole pipeline; 0: one by one."""
    ns, _, samples, _ = _sums(own)
    window = min(_MOST_IN_WINDOW, math.ceil(_WINDOW_NS * samples / ns)) if samples > 0 else 1
    return window if window > 1 else 0


def _sums(drained: Drained) -> list[int]:
    return [sum(column) for column in zip(*drained.rows, strict=True)] if drained.rows else [0] * 4


def _with(calls: int | None) -> str:
    return "" if calls is None else f", with {'autotune' if calls == AUTOTUNE else calls} calls at once"


def _described(prefixes: list[Prefix]) -> dict[str, Any]:
    """The pipeline in the words of a loader, as far as these fit, and its stages."""
    return {
        "stages": [prefix.stage | {"reads_several": prefix.reads > 1} for prefix in prefixes],
        "dataset": "tf.data",
        "dataset_length": None,
        "batch_size": next((prefix.batch_size for prefix in reversed(prefixes) if prefix.batch_size), None),
        "prefetch_factor": None,
        "stream": True,
        "cores": cores_to_use(),
        "read_together": 1,
    }


def _let_it_rest() -> None:
    until_ns = now() + _QUIET_NS
    while now() < until_ns:
        used_ns, began_ns = time.process_time_ns(), now()
        time.sleep(_LOOK_S)
        if time.process_time_ns() - used_ns < _RESTS * (now() - began_ns):
            return


def _note(training: Training, part: str, **fields: Any) -> None:
    training.recorder.note({"kind": "task", "task": NAME, "part": part, **fields})


TASK = TaskImplementation(name=NAME, run=run)
