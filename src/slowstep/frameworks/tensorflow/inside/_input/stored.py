"""A second pipeline of tf.data that stores what is the same in each epoch, and is filled before it gives."""

from __future__ import annotations

import sys
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._input.graphs import constant_in, dataset_of, length_of, node_of, parsed, result_of
from slowstep.frameworks.tensorflow.inside._input.kept import MOST_MEMORY
from slowstep.frameworks.tensorflow.inside._input.rebuilt import RebuiltPipeline
from slowstep.frameworks.tensorflow.inside._input.resources import bytes_of, iterated, kinds_of
from slowstep.frameworks.tensorflow.inside._input.same_part import same_part
from slowstep.levers._input.room import MIB, memory_free_bytes
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now

_STORE: Final = "slowstep_store"
_CACHE: Final = "CacheDatasetV2"
# Between two steps the training waits so long for it to be filled. Assumed: of steps of half a second it takes half of the time.
_SLICE_NS: Final = 500_000_000
# What a tensor takes beside its numbers: its header, its buffer's, and its place in the cache. Assumed.
_TENSOR_BYTES: Final = 192
# After so many elements what all of them take is estimated by their mean. Assumed.
_ENOUGH: Final = 8
NO_SIZE: Final = "nobody knows what it would take: sparse or ragged tensors, or data sets"
NO_ROOM: Final = "how much memory is free is not known"
TOO_LARGE: Final = "an epoch of it takes {needed:.0f} MiB or more to store, and of {free:.0f} MiB of free memory a quarter is used at most"
FAILS: Final = "its pipeline raised {} while it was stored"
NO_EPOCH: Final = "an experiment does not wait for a whole epoch to be stored: {stored} elements{of} were in the time that there was"


class Store:
    """An epoch of the part of a pipeline that is the same in each, in a cache of TensorFlow's own, which is put into the graph behind it.

    Raises NotApplicable where there is no such part, or nobody knows what it takes; with nothing left behind.
    """

    def __init__(self, graph: Any) -> None:
        tf, last, free = sys.modules["tensorflow"], same_part(graph), memory_free_bytes()
        self._kinds = _kinds_of(last)
        if {tf.variant, tf.resource} & set(self._kinds["output_types"]):
            raise NotApplicable(NO_SIZE)
        if free is None:
            raise NotApplicable(NO_ROOM)
        self._free, self._bytes, self._elements = free, 0, 0
        self._is_full = False
        self._cache: Any = None
        self._source: Any = None
        with tf.device("CPU:0"):
            self._cache = tf.raw_ops.AnonymousMemoryCache()
            try:
                _put_behind(graph, last, _named(tf, self._cache.handle), self._kinds)
                part = dataset_of(graph, _STORE)
                self._length = length_of(part)
                self._source = iterated(part, self._kinds)
            except BaseException:
                self.let_go()
                raise

    def fill(self) -> bool:
        """Read on for a while; whether all of it is stored. Raises NotApplicable where it is too large, or fails."""
        tf, until_ns = sys.modules["tensorflow"], now() + _SLICE_NS
        try:
            while not self._is_full and now() < until_ns:
                self._count(tf.raw_ops.IteratorGetNext(iterator=self._source, **self._kinds))
        except tf.errors.OutOfRangeError:
            # What is stored stays where it is.
            self._is_full, self._source = True, None
        except tf.errors.OpError as error:
            raise NotApplicable(FAILS.format(type(error).__name__)) from None
        return self._is_full

    def lacks(self) -> str | None:
        """How far it has come, where it is not full."""
        of = f" of {self._length}" if self._length >= 0 else ""
        return NO_EPOCH.format(stored=self._elements, of=of) if self._elements and not self._is_full else None

    def let_go(self) -> None:
        """Free what it holds, once no iterator reads it."""
        # Its handle, and what ends it in versions that do not count handles.
        self._source = self._cache = None

    def _count(self, element: list[Any]) -> None:
        self._bytes += sum(_size_of(each) + _TENSOR_BYTES for each in element)
        self._elements += 1
        all_of_it = self._bytes * self._length / self._elements if self._elements >= _ENOUGH and self._length > 0 else 0.0
        if (needed := max(self._bytes, all_of_it)) > MOST_MEMORY * self._free:
            raise NotApplicable(TOO_LARGE.format(needed=needed / MIB, free=self._free / MIB))


class StoredPipeline(RebuiltPipeline):
    """Gives the batches of the second one, what is the same of them from memory. Raises as a pipeline that is built a second time, and
    NotApplicable where nothing can be stored.
    """

    def __init__(self, training: Training) -> None:
        self._store: Store | None = None
        super().__init__(training, self._put_store)

    def _put_store(self, graph: Any) -> None:
        self._store = Store(graph)

    def ready(self) -> bool:
        """Whether it is filled. Before, it is known how the pipeline does: while the training waits for this its buffers are fuller."""
        return super().ready() and (self._store is None or self._store.fill())

    def lacks(self) -> str | None:
        """That an epoch takes too long to be stored."""
        return None if self._store is None else self._store.lacks()

    def remove(self) -> None:
        """Leave nothing behind: the second pipeline ends, and what is stored is let go."""
        super().remove()
        if self._store is not None:
            self._store.let_go()
            self._store = None


def _kinds_of(node: Any) -> dict[str, Any]:
    """Types and shapes of what a stage gives; what reads files gives a text, and says nothing of it."""
    tf = sys.modules["tensorflow"]
    types = next((node.attr[name].list.type for name in ("output_types", "Toutput_types") if name in node.attr), None)
    if types is None:
        return kinds_of([tf.string], [tf.TensorShape([])])
    return kinds_of([tf.as_dtype(each) for each in types], [tf.TensorShape(each) for each in node.attr["output_shapes"].list.shape])


def _named(tf: Any, cache: Any) -> Any:
    """The node by which a graph has a cache that is there already: as TensorFlow writes it."""
    kinds = kinds_of([tf.int64], [tf.TensorShape([])])
    numbers = tf.raw_ops.RangeDataset(start=tf.constant(0, tf.int64), stop=tf.constant(1, tf.int64), step=tf.constant(1, tf.int64), **kinds)
    stored = tf.raw_ops.CacheDatasetV2(input_dataset=numbers, filename="", cache=cache, **kinds)
    graph = parsed(tf.raw_ops.DatasetToGraphV2(input_dataset=stored, external_state_policy=1).numpy())
    return node_of(graph, node_of(graph, result_of(graph).input[0]).input[2])


def _put_behind(graph: Any, last: Any, cache: Any, kinds: dict[str, Any]) -> None:
    """Have all that read a stage read what the cache has stored of it."""
    tf = sys.modules["tensorflow"]
    for node in graph.node:
        for at, name in enumerate(node.input):
            if name.partition(":")[0] == last.name:
                node.input[at] = _STORE
    held = graph.node.add()
    held.CopyFrom(cache)
    held.name = f"{_STORE}_held"
    store = graph.node.add()
    store.name, store.op = _STORE, _CACHE
    store.input.extend([last.name, constant_in(graph, f"{_STORE}_file", "", tf.string), held.name])
    store.attr["output_types"].list.type.extend(each.as_datatype_enum for each in kinds["output_types"])
    store.attr["output_shapes"].list.shape.extend(each.as_proto() for each in kinds["output_shapes"])


def _size_of(tensor: Any) -> int:
    """What its numbers take, or its texts."""
    if tensor.dtype != sys.modules["tensorflow"].string:
        return bytes_of([tensor])
    texts = tensor.numpy()
    return len(texts) if isinstance(texts, bytes) else sum(len(each) for each in texts.flat)
