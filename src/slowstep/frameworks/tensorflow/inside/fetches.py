"""Waits for batches of tf.data: called eagerly they are timed here, and a function that is traced is made to count its own.

Of a graph Python sees only the whole call. So around a fetch that is traced two timestamps are put, and what lies between is added to an
accumulator of TensorFlow's, which needs no variable: that would have to be made before the trace, and saved with the model.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._framework import FRAMEWORK
from slowstep.frameworks.tensorflow.inside._pipelines import LivePipeline, Pipelines, held_dataset
from slowstep.frameworks.tensorflow.inside.functions import TracedFunctions
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.known import Known
from slowstep.record.steps.spans import RecordedWaits, new_number
from slowstep.record.timing.batches import samples_in
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE: Final = "tensorflow.python.data.ops.iterator_ops"
# What makes of a loop over a data set, in a function that is traced, one operation that fetches for itself.
_LOOPS: Final = "tensorflow.python.data.ops.dataset_autograph"
_LOOP: Final = "_general_purpose_scan"
_REPLICAS: Final = "tensorflow.python.distribute.values"
# An accumulator leaves out what comes of a step before the one that it is at.
_ANY_STEP: Final = 1 << 60
# Of anonymous iterators: `Optional` has no end to be raised.
_FETCHES: Final = ("__next__", "get_next", "get_next_as_optional")


class CountedFetches:
    """How often fetches in graphs were waited for, and how long in all; `owner` tells while one is traced for which function that trains it
    is to be counted, None where it is not to be.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.owner: Callable[[], Any] = _nobody
        self._owners: weakref.WeakSet[Any] = weakref.WeakSet()
        self._last_owner: weakref.ref[Any] | None = None
        self.forget()
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        self._owners.clear()
        self._last_owner = None
        self._traced = self._batches = 0
        self._waited_ns = self._samples = 0.0
        # Resources live as long as the process; those of a recording before this one have other names.
        self._name = f"slowstep_fetches_{os.getpid()}_{id(self)}"

    @property
    def are_any_counted(self) -> bool:
        """Whether there is anything to read."""
        return self._traced > 0

    def are_counted(self, function: Any) -> bool:
        """Whether a function that trains counts its fetches; False as well of one that was traced before."""
        # It is asked at each step, of the same one.
        if self._last_owner is not None and function is self._last_owner():
            return function is not None
        are_counted = any(each is function for each in self._owners)
        if are_counted:
            self._last_owner = weakref.ref(function)
        return are_counted

    def stands_for(self, other: Any, function: Any) -> None:
        """Another function is called in the place of one that trains for a while: what is known of that is known of it."""
        if self.are_counted(function):
            self._owners.add(other)

    def is_wanted(self) -> bool:
        """Whether the fetch that is traced just now is to be counted. Raises nothing."""
        try:
            return self.owner() is not None
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
            return False

    def counted(self, fetch: Callable[[], Any]) -> Any:
        """What a fetch gives while it is traced, with what counts it put around. Raises what the fetch does, and nothing else."""
        tf = sys.modules["tensorflow"]
        # Beside a device of another kind: all of this is the host's.
        with tf.device("CPU:0"):
            began = tf.timestamp()
        with tf.control_dependencies([began]):
            got = fetch()
        try:
            self._count(tf, got, began)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
        return got

    def _count(self, tf: Any, got: Any, began: Any) -> None:
        samples = _samples_in(tf, got)
        with tf.device("CPU:0"), tf.control_dependencies(_tensors_in(tf, got, expand_composites=True)):
            ended = tf.timestamp()
            # Only where there was a batch: the fetch that finds none fails, and so does all that depends on it.
            with tf.control_dependencies([ended]):
                gradient = tf.stack([ended - began, tf.ones_like(ended), samples])
                tf.raw_ops.ResourceAccumulatorApplyGradient(handle=self._accumulator(tf), local_step=_ANY_STEP, gradient=gradient)
        self._traced += 1
        self._owners.add(self.owner())

    def read(self) -> tuple[int, int, int | None]:
        """Batches so far, nanoseconds in all, and samples, None where those of any are unknown.

        To be asked where no function runs; raises what TensorFlow does.
        """
        tf = sys.modules["tensorflow"]
        if self._traced:
            with tf.device("CPU:0"):
                accumulator = self._accumulator(tf)
                if int(tf.raw_ops.ResourceAccumulatorNumAccumulated(handle=accumulator)):
                    seconds, count, samples = tf.raw_ops.ResourceAccumulatorTakeGradient(
                        handle=accumulator, num_required=1, dtype=tf.float64
                    ).numpy()
                    self._batches += round(float(count))
                    self._waited_ns += float(seconds) * 1e9
                    self._samples += float(samples)
        return self._batches, int(self._waited_ns), None if math.isnan(self._samples) else round(self._samples)

    def _accumulator(self, tf: Any) -> Any:
        of = {"dtype": tf.float64, "shape": [3], "reduction_type": "SUM"}
        return tf.raw_ops.ResourceConditionalAccumulator(**of, container="", shared_name=self._name)


def _tensors_in(tf: Any, got: Any, *, expand_composites: bool = False) -> list[Any]:
    """A batch may have places with nothing in them, as where no sample has a weight."""
    return [each for each in tf.nest.flatten(got, expand_composites=expand_composites) if isinstance(each, tf.Tensor)]


def _samples_in(tf: Any, got: Any) -> Any:
    """How many samples a batch has that is fetched in a graph: the leading dimension of its first tensor that surely has one, else NaN."""
    tensors = [each for each in _tensors_in(tf, got) if each.shape.rank]
    known = tensors[0].shape.as_list()[0] if tensors else math.nan
    if known is None:
        # Where the batch is: to be asked elsewhere it would be copied to there.
        with tensors[0].graph.colocate_with(tensors[0].op):
            sizes = tf.shape(tensors[0])
    with tf.device("CPU:0"):
        return tf.constant(known, tf.float64) if known is not None else tf.cast(sizes[0], tf.float64)


def _nobody() -> None:
    return None


class _Fetch(Iterator[Any]):
    """The fetches of an iterator, which is not kept alive."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = weakref.ref(iterator)
        self.original: Callable[[Any], Any] = next

    def __next__(self) -> Any:
        return self.original(self._iterator())


class DatasetWaits(RecordedWaits[Any]):
    """The waits of one iterator."""

    def __init__(self, recorder: Recorder, fetch: _Fetch, dataset: Any, loader: int) -> None:
        super().__init__(recorder, fetch, dataset=type(dataset).__name__.strip("_"), loader=loader, framework=FRAMEWORK.name)
        self._fetch = fetch
        # What its stages count, once it is known that a thread that trains fetches of its iterator.
        self.pipeline: LivePipeline | None = None
        self.ends = (StopIteration, sys.modules["tensorflow"].errors.OutOfRangeError)

    def samples_of(self, batch: Any) -> int:
        """Of a batch for several replicas those of all; -1 where that is not known."""
        parts = values_of_replicas(batch)
        if parts is None:
            return super().samples_of(batch)
        found = [samples_in(part) for part in parts]
        return -1 if min(found) < 0 else sum(found)

    @property
    def number(self) -> int:
        """That of its iterator."""
        return self._number

    def fetch(self, original: Callable[[Any], Any]) -> Any:
        """One batch."""
        self._fetch.original = original
        return next(self)


def values_of_replicas(batch: Any) -> tuple[Any, ...] | None:
    """The first tensor of a batch for several replicas, as each of them gets it; None of one that is not for several."""
    kind = getattr(sys.modules.get(_REPLICAS), "PerReplica", None)
    if kind is None:
        return None
    first = next((part for part in sys.modules["tensorflow"].nest.flatten(batch) if isinstance(part, kind)), None)
    return None if first is None else tuple(first.values)


class EagerIterators:
    """What is known of iterators that are read eagerly."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._counted, self._pipelines = recorder.shared(CountedFetches), recorder.shared(Pipelines)
        self._functions = recorder.shared(TracedFunctions)
        self._waits: weakref.WeakKeyDictionary[Any, DatasetWaits] = weakref.WeakKeyDictionary()
        self._datasets = Known()
        # By the numbers of data sets.
        self._loaders: dict[int, int] = {}
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        self._waits.clear()
        self._datasets.forget()
        self._loaders.clear()

    def fetched(self, original: Callable[[Any], Any]) -> Any:
        """What a fetch is replaced by."""
        executes_eagerly = sys.modules["tensorflow"].executing_eagerly

        @functools.wraps(original)
        def fetch(iterator: Any) -> Any:
            if not self._recorder.live[0]:
                return original(iterator)
            try:
                if executes_eagerly():
                    return self._fetched_eagerly(original, iterator)
                if self._counted.is_wanted():
                    return self._counted.counted(lambda: original(iterator))
                self._functions.note_uncounted_fetch()
                return original(iterator)
            except BaseException:  # passed on, without our frames in the traceback
                hide_own_frames()
                raise

        return fetch

    def fetched_for_replicas(self, original: Callable[..., Any]) -> Any:
        """What a fetch of an iterator for several replicas is replaced by: of each of these another one fetches within it."""
        executes_eagerly = sys.modules["tensorflow"].executing_eagerly

        @functools.wraps(original)
        def fetch(iterator: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                waits = self._waits_for_replicas(iterator) if self._recorder.live[0] and executes_eagerly() else None
                own = functools.partial(_given, original, args, kwargs)
                return original(iterator, *args, **kwargs) if waits is None else waits.fetch(own)
            except BaseException:  # passed on, without our frames in the traceback
                hide_own_frames()
                raise

        return fetch

    def _fetched_eagerly(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        waits = self._waits_of(iterator)
        if waits is None:
            return original(iterator)
        got = waits.fetch(original)
        self._read_pipeline(iterator, waits)
        return got

    def _read_pipeline(self, iterator: Any, waits: DatasetWaits) -> None:
        """Read what the stages have counted where the thread is one that trains, and this fetch is no part of another one: a generator that
        a pipeline calls may itself fetch, on a thread of TensorFlow's or on the one that waits, while the graph around it runs.
        """
        try:
            me = self._recorder.local.me
            if not me.updates or isinstance(me.borrower, DatasetWaits):
                return
            if waits.pipeline is None:
                waits.pipeline = self._pipelines.add(iterator, waits.number)
            waits.pipeline.fetched_by = me.thread
            self._pipelines.read(now(), me.thread)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _waits_for_replicas(self, iterator: Any) -> DatasetWaits | None:
        try:
            # What the first worker's replicas read.
            first = iterator._iterators[0]
            is_new, dataset = iterator not in self._waits, held_dataset(first)
            waits = self._waits_of(iterator, dataset)
            if is_new and waits is not None and len(first._devices) > 1:
                self._pipelines.divided(dataset, waits.number)
            return waits
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
            return None

    def _waits_of(self, iterator: Any, dataset: Any = None) -> DatasetWaits | None:
        try:
            waits = self._waits.get(iterator)
            if waits is None:
                dataset = held_dataset(iterator) if dataset is None else dataset
                waits = self._waits[iterator] = DatasetWaits(self._recorder, _Fetch(iterator), dataset, self._loader_of(dataset))
                waits.pipeline = self._pipelines.numbered(iterator, waits.number)
            return waits
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
            return None

    def _loader_of(self, dataset: Any) -> int:
        if dataset is None:
            return new_number()
        known = self._datasets.get(dataset) or self._datasets.add(dataset)
        return self._loaders.setdefault(known, new_number())


def _given(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], iterator: Any) -> Any:
    return original(iterator, *args, **kwargs)


def install(recorder: Recorder) -> Undo:
    """Replace what fetches. Raises Unfit where this version has none of it."""
    owner = find(sys.modules.get(_MODULE), "OwnedIterator")
    iterators = recorder.shared(EagerIterators)
    originals = {name: vars(owner)[name] for name in _FETCHES if name in vars(owner)}
    if not originals:
        raise Unfit(f"OwnedIterator has no {', '.join(_FETCHES)}")
    undos = [replace(owner, name, iterators.fetched(original)) for name, original in originals.items()]
    try:
        undos.append(_tell_of_loops(recorder))
    except Unfit as unfit:
        recorder.introduce({"kind": "hook", "name": "tensorflow_loops", "state": "off", "reason": str(unfit)})
    return all_of(undos)


def _tell_of_loops(recorder: Recorder) -> Undo:
    """Have loops over data sets seen that are traced. Raises Unfit where this version has none of it."""
    module = sys.modules.get(_LOOPS)
    original, functions = find(module, _LOOP), recorder.shared(TracedFunctions)

    @functools.wraps(original)
    def loop(*args: Any, **kwargs: Any) -> Any:
        functions.note_uncounted_fetch()
        try:
            return original(*args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    return replace(module, _LOOP, loop)


HOOK = Hook(name="tensorflow_fetches", module="tensorflow", install=install)
