"""An iterator of a data set, made of operations: what a recording has put around those of the script does not see it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from slowstep.frameworks.tensorflow.inside._input.resources import iterated, kinds_of
from slowstep.frameworks.tensorflow.inside._model import model_of
from slowstep.record.experiment.loader_reading import UNKNOWN


@dataclass(frozen=True, slots=True)
class Element:
    """What came of one request: so many elements, of so many samples and bytes; UNKNOWN where that is not known."""

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
        self._kinds = kinds_of(self._dataset._flat_types, self._dataset._flat_shapes)
        with self._tf.device("CPU:0"):
            self._handle = iterated(self._dataset._variant_tensor, self._kinds)

    def read(self) -> Element:
        """The next one. Raises StopIteration at the end."""
        try:
            with self._tf.device("CPU:0"):
                got = self._tf.raw_ops.IteratorGetNext(iterator=self._handle, **self._kinds)
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

    def model(self) -> Any:
        """What TensorFlow counts of its stages; None where it does not, without autotune."""
        try:
            return model_of(self._handle)
        except self._tf.errors.OpError:
            return None

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
