"""Measures the tf.data pipeline that feeds the training alone: as it is, and cut after each of its stages.

What is found goes into `task` notes: `loader` (what it is), `begins` (what is done next, and for how long), `drain` (one reading of the
whole pipeline), `prefix` (one of its first stages, up to the one with the number `stage`); see loader_reading.Drained of both.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._pipelines import Pipelines
from slowstep.frameworks.tensorflow.inside.tasks._drain import PipelineDrain
from slowstep.frameworks.tensorflow.inside.tasks._prefixes import Prefix, prefixes_of, runs_ahead, why_not
from slowstep.record.experiment.loader_reading import LEAST_BATCHES, Drained
from slowstep.record.experiment.tasks import TaskImplementation
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.record.system.facts import cores_allowed, cpu_quota

NAME: Final = "bench_data"
NO_PIPELINE: Final = "no tf.data pipeline was seen to feed this training"
_OWN_SHARE: Final = 0.2
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


class _PipelineBench:
    def __init__(self, training: Training, prefixes: list[Prefix], seconds: float) -> None:
        self._training, self._prefixes, self._seconds = training, prefixes, seconds
        self._until_ns = now() + int(_SPILL * seconds * 1e9)
        # What the last reading of each prefix took until its first element.
        self._starts_ns = [0] * len(prefixes)
        self._window = 0

    def run(self, *, cut: bool) -> None:
        """The pipeline as it is comes first; then all prefixes upwards, and back down: what drifts meanwhile is in all of them alike."""
        whole, cut = len(self._prefixes) - 1, cut and len(self._prefixes) > 1
        own = self._drain(whole, self._seconds * (_OWN_SHARE if cut else 1), turn=0)
        if not cut or own.reason is not None:
            return
        self._window = _window(own)
        readings = [(number, 1) for number in range(whole + 1)] + [(number, 2) for number in range(whole, -1, -1)]
        for done, (number, turn) in enumerate(readings):
            left_s = (self._until_ns - now()) / 1e9 - self._seconds * (_SPILL - 1)
            self._drain(number, max(left_s / (len(readings) - done), _LEAST_S), turn=turn)

    def _drain(self, number: int, seconds: float, *, turn: int) -> Drained:
        """One reading of the stages up to one."""
        prefix, is_whole = self._prefixes[number], number == len(self._prefixes) - 1
        kind, inputs = prefix.stage["kind"], None
        drained = Drained(workers=0, reason=self._no_time_left(number))
        if drained.reason is None:
            _note(self._training, "begins", doing="all stages" if is_whole else f"the stages up to {kind}", seconds=seconds, at_ns=now())
            drain = PipelineDrain(
                prefix.dataset,
                kind,
                seconds=seconds,
                until_ns=self._until_ns,
                window=self._window if prefix.holds_single else 0,
                least=_LEAST_REQUESTS if turn else LEAST_BATCHES,
            )
            drained = drain.run()
            inputs, self._starts_ns[number] = drain.inputs_per_element, max(drained.starts_ns, default=0)
        part = {"part": "drain"} if is_whole else {"part": "prefix", "stage": number}
        _note(self._training, **part, turn=turn, inputs_per_element=inputs, **asdict(drained))
        return drained

    def _no_time_left(self, number: int) -> str | None:
        return None if now() + self._starts_ns[number] < self._until_ns else "left out: the time is over (a larger --budget)"


def _window(own: Drained) -> int:
    """How many elements are asked for at once of stages before batches are made, by the pace of the whole pipeline; 0: one by one."""
    ns, _, samples, _ = (sum(column) for column in zip(*own.rows, strict=True)) if own.rows else (0, 0, 0, 0)
    window = min(_MOST_IN_WINDOW, math.ceil(_WINDOW_NS * samples / ns)) if samples > 0 else 1
    return window if window > 1 else 0


def _described(prefixes: list[Prefix]) -> dict[str, Any]:
    """The pipeline in the words of a loader, as far as these fit, and its stages."""
    allowed, quota = cores_allowed(), cpu_quota()
    return {
        "stages": [prefix.stage | {"reads_several": prefix.reads > 1} for prefix in prefixes],
        "runs_ahead": runs_ahead(prefixes),
        "dataset": "tf.data",
        "dataset_length": None,
        "batch_size": next((prefix.batch_size for prefix in reversed(prefixes) if prefix.batch_size), None),
        "prefetch_factor": None,
        "stream": True,
        "cores": min((cores for cores in (allowed, quota) if cores is not None), default=None),
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
