"""An iterator of a data set, made of operations: what a recording has put around those of the script does not see it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from slowstep.record.experiment.loader_reading import UNKNOWN


@dataclass(frozen=True, slots=True)
class Element:
    """What came of one request: so many elements, of so many samples and bytes; UNKNOWN where that is not told."""

    count: int
    samples: int
    size_bytes: int


class DatasetReader:
    """Reads a data set from its beginning. With a `window` so many elements come of a request, and are not brought to Python.

    A request takes a tenth of a millisecond, more than many a stage takes for a sample. Raises what TensorFlow does.
    """

    def __init__(self, dataset: Any, window: int = 0) -> None:
        self._tf = sys.modules["tensorflow"]
        self._is_window = window > 0
        # Its variant belongs to the object.
        self._dataset = dataset.window(window) if window else dataset
        self._of = {"output_types": self._dataset._flat_types, "output_shapes": self._dataset._flat_shapes}
        with self._tf.device("CPU:0"):
            self._handle = self._tf.raw_ops.AnonymousIteratorV3(**self._of)
            self._tf.raw_ops.MakeIterator(dataset=self._dataset._variant_tensor, iterator=self._handle)

    def read(self) -> Element:
        """The next one. Raises StopIteration at the end."""
        try:
            with self._tf.device("CPU:0"):
                got = self._tf.raw_ops.IteratorGetNext(iterator=self._handle, **self._of)
        except self._tf.errors.OutOfRangeError:
            raise StopIteration from None
        if self._is_window:
            count = int(self._tf.raw_ops.DatasetCardinality(input_dataset=got[0]))
            return Element(count, count, UNKNOWN)
        return Element(1, self._samples(got), self._bytes(got))

    def length(self) -> int | None:
        """How many elements the data set says that it has; None where it does not, or has no end."""
        length = int(self._tf.raw_ops.DatasetCardinality(input_dataset=self._dataset._variant_tensor))
        return length if length > 0 else None

    def inputs_per_element(self, kind: str) -> float | None:
        """How many elements a stage has taken of its input for each that it gave, by what TensorFlow counts; None where it does not."""
        try:
            nodes, number = self._nodes()
        except self._tf.errors.OpError:  # nothing is counted without autotune
            return None
        while (node := nodes.get(number)) is not None and node.inputs:
            taken, number = nodes.get(node.inputs[0]), node.inputs[0]
            if kind in node.name:
                return taken.num_elements / node.num_elements if taken is not None and node.num_elements else None
        return None

    def _nodes(self) -> tuple[dict[int, Any], int]:
        """What TensorFlow counts of each stage, by its number, and the number of the last one."""
        proto = sys.modules["tensorflow.core.framework.model_pb2"].ModelProto
        with self._tf.device("CPU:0"):
            model = proto.FromString(self._tf.raw_ops.IteratorGetModelProto(iterator=self._handle).numpy())
        return dict(model.nodes.items()), model.output

    def _samples(self, got: list[Any]) -> int:
        """The first dimension of the first tensor that has one; what consists of numbers alone is one sample."""
        first = next((each for each in got if each.shape.rank and each.dtype != self._tf.variant), None)
        if first is not None:
            return int(first.shape[0])
        return UNKNOWN if any(each.dtype == self._tf.variant for each in got) else 1

    def _bytes(self, got: list[Any]) -> int:
        if any(each.dtype in (self._tf.variant, self._tf.string, self._tf.resource) for each in got):
            return UNKNOWN
        return sum(int(each.shape.num_elements()) * int(each.dtype.size) for each in got)
