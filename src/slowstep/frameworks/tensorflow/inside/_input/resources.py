"""Batches that are taken of an iterator of tf.data below its hooks, and iterators over batches that lie in memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

# A batch as its flat tensors, in the order of the iterator's types.
FlatBatch = Sequence[Any]


def next_of(iterator: Any, resource: Any) -> FlatBatch:
    """The next batch of a resource that gives what this iterator does. Raises what the pipeline does: OutOfRangeError at its end."""
    raw = sys.modules["tensorflow"].raw_ops
    return list(raw.IteratorGetNext(iterator=resource, **_kinds(iterator)))


def over(iterator: Any, resource: Any, batches: Sequence[FlatBatch], *, repeats: bool, error: Exception | None = None) -> Any:
    """A resource that gives these batches, once or again and again, where this iterator can read it: `resource` is its own. With an error,
    which is no end, it fails after the last one as the pipeline did, but for the class: it is an InvalidArgumentError with the same words.

    Raises what TensorFlow does. Nothing runs in the background for it.
    """
    tf, kinds = sys.modules["tensorflow"], _kinds(iterator)
    raw = tf.raw_ops
    with tf.device(resource.device):
        failing = [] if error is None else [_failing(tf, f"{type(error).__name__}: {error}", kinds)]
        sets = [raw.TensorDataset(components=list(batch), output_shapes=kinds["output_shapes"]) for batch in batches]
        dataset, *others = [*sets, *(each._variant_tensor for each in failing)]
        for other in others:
            dataset = raw.ConcatenateDataset(input_dataset=dataset, another_dataset=other, **kinds)
        dataset = raw.OptionsDataset(input_dataset=dataset, serialized_options=_plain(tf), **kinds)
    return started(iterator, resource, dataset, repeats=repeats)


def started(iterator: Any, resource: Any, dataset: Any, *, repeats: bool = True) -> Any:
    """A resource that gives a data set's elements, once or again and again, where this iterator can read it: `resource` is its own.

    Raises what TensorFlow does.
    """
    tf, kinds = sys.modules["tensorflow"], _kinds(iterator)
    raw = tf.raw_ops
    with tf.device(resource.device):
        if repeats:
            dataset = raw.RepeatDataset(input_dataset=dataset, count=-1, **kinds)
        return iterated(dataset, kinds)


def iterated(dataset: Any, kinds: dict[str, Any]) -> Any:
    """A resource that gives the elements of a data set's variant, which are of these kinds. Raises what TensorFlow does."""
    raw = sys.modules["tensorflow"].raw_ops
    made = raw.AnonymousIteratorV3(**kinds)
    raw.MakeIterator(dataset=dataset, iterator=made)
    return made


def kinds_of(types: Sequence[Any], shapes: Sequence[Any]) -> dict[str, Any]:
    """The flat types and shapes of elements, as operations that handle them are given them."""
    return {"output_types": types, "output_shapes": shapes}


def bytes_of(batch: FlatBatch) -> int:
    """What its tensors take; of texts and of what is sparse only what TensorFlow says of the shape."""
    return sum(int(each.shape.num_elements() or 0) * max(int(each.dtype.size), 1) for each in batch)


def leading_of(batch: FlatBatch) -> int | None:
    """The length of its first tensor that has one."""
    lengths = (each.shape[0] for each in batch if each.shape.rank)
    return next(lengths, None)


def _kinds(iterator: Any) -> dict[str, Any]:
    return kinds_of(iterator._flat_output_types, iterator._flat_output_shapes)


def _failing(tf: Any, message: str, kinds: dict[str, Any]) -> Any:
    """A data set whose one element cannot be made. Its variant belongs to the object."""

    def element(_: Any) -> tuple[Any, ...]:
        with tf.control_dependencies([tf.raw_ops.Assert(condition=False, data=[message])]):
            return tuple(_never_made(tf, *each) for each in zip(kinds["output_types"], kinds["output_shapes"], strict=True))

    return tf.data.Dataset.range(1).map(tf.autograph.experimental.do_not_convert(element))


def _never_made(tf: Any, dtype: Any, shape: Any) -> Any:
    raw = tf.raw_ops
    if dtype == tf.variant:
        value = raw.EmptyTensorList(element_shape=tf.constant(-1), max_num_elements=tf.constant(-1), element_dtype=tf.int64)
    else:
        value = tf.zeros([], dtype)
    return raw.EnsureShape(input=raw.PlaceholderWithDefault(input=value, shape=tf.TensorShape(None)), shape=shape)


def _plain(tf: Any) -> bytes:
    """No optimisation and no autotuning: that would put a buffer behind it, and threads."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return bytes(options._to_proto().SerializeToString())
