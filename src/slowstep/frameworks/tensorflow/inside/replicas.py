"""Replicas of `tf.distribute` in one process: a step stays one call, and a batch is what all of them get.

Each replica is traced on a thread of its own, for the tf.function that called `strategy.run`: what these threads trace is that call's.
Eagerly, a batch is fetched of an iterator for each replica: that is one wait.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._pipelines import Pipelines
from slowstep.frameworks.tensorflow.inside.fetches import EagerIterators
from slowstep.frameworks.tensorflow.inside.functions import TracedFunctions
from slowstep.frameworks.tensorflow.inside.iterators import MADE
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.named_spans import NamedSpans
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# As in TensorFlow 2.21.
_RUNS: Final = "tensorflow.python.distribute.mirrored_run"
_RUN: Final = "_call_for_each_replica"
_INPUT: Final = "tensorflow.python.distribute.input_lib"
_ITERATOR: Final = "DistributedIteratorBase"
_DATASETS: Final = ("DistributedDataset", "DistributedDatasetsFromFunction")


def _traced_on_threads(original: Any, functions: TracedFunctions) -> Any:
    """What starts the threads of replicas."""

    @functools.wraps(original)
    def call(distribution: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(distribution, functions.within_this_call(fn), *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    return call


def _started(recorder: Recorder, original: Any) -> Any:
    """`__iter__` of a distributed data set; where a call of Keras' `fit` reads it, that of each replica's iterator is told of."""
    spans, pipelines = NamedSpans(recorder), recorder.shared(Pipelines)
    executes_eagerly = sys.modules["tensorflow"].executing_eagerly

    @functools.wraps(original)
    def __iter__(self: Any, /) -> Any:
        began_ns = now()
        try:
            made = original(self)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        try:
            if recorder.watched and executes_eagerly() and not pipelines.feeds():
                spans.write(MADE, began_ns)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)
        return made

    return __iter__


def install(recorder: Recorder) -> Undo:
    """Replace what starts the replicas' threads, and what fetches for all of them. Raises Unfit where this version has other ones."""
    runs, given = sys.modules.get(_RUNS), sys.modules.get(_INPUT)
    run, iterator = find(runs, _RUN), find(given, _ITERATOR)
    fetch, datasets = find(iterator, "get_next"), [find(given, name) for name in _DATASETS]
    starts = [(dataset, find(dataset, "__iter__")) for dataset in datasets]
    iterators = recorder.shared(EagerIterators)
    return all_of(
        [
            replace(runs, _RUN, _traced_on_threads(run, recorder.shared(TracedFunctions))),
            replace(iterator, "get_next", iterators.fetched_for_replicas(fetch)),
            *(replace(dataset, "__iter__", _started(recorder, start)) for dataset, start in starts),
        ]
    )


HOOK = Hook(name="tensorflow_replicas", module="tensorflow", install=install)
