"""Where in the shapes of a graph the length of its sequences stands: other dimensions are often as long.

Widths, channels, heads, pixels and samples are powers of two like lengths. What counts is where a dimension stands, and what else the graph
holds; where both could be meant it is not taken for a length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Labels that are shifted, tokens that are put before the sequence.
OFF_BY = 1
# Values of convolutions over more than one dimension (samples, channels, height, width) hold pixels, and no sequences of whole numbers.
PIXELS = 4
Dimensions = tuple[int, ...]


class Batch(NamedTuple):
    """One that was looked at: its sequences, their places, how many are filled in all (None: not known), and how many of the fullest."""

    rows: int
    length: int
    filled: int | None
    longest: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How a graph lays out the sequences of a batch. `shapes` are all of its values, `channels` those of its convolutions, each with how
    many dimensions their values have.
    """

    batch: Batch
    shapes: frozenset[Dimensions]
    channels: frozenset[tuple[int, int]]

    @property
    def is_fixed(self) -> bool:
        """Whether all places of a sequence are made one row, as a layer takes them that has weights for each place: it takes no fewer."""
        rows, length = self.batch.rows, self.batch.length
        wide = [shape[1] // length for shape in self.shapes if len(shape) == 2 and shape[0] == rows and shape[1] % length == 0]
        return any(each > 1 and {(rows, length, each), (rows, each, length)} & self.shapes for each in wide)

    def exponent(self, shape: Sequence[int]) -> int:
        """How often the length is among the dimensions, 0 to 2: twice where each place is held against each."""
        if not shape or (len(shape) >= PIXELS and any(of == len(shape) for of, _ in self.channels)):
            return 0
        times = sum(self._is_length(shape, at) for at in range(len(shape))) if len(shape) > 2 else 0
        if times > 1 and self._is_flattened(shape):
            # As many features of each place as there are places.
            return 1
        return min(times, 2) if times else int(self._holds_all(shape))

    def _is_near(self, size: int) -> bool:
        return abs(size - self.batch.length) <= OFF_BY

    def _is_length(self, shape: Sequence[int], at: int) -> bool:
        if not self._is_near(shape[at]):
            return False
        rows = self.batch.rows
        if at == 0:
            # Time first. Of as many samples as places one of the first two dimensions is the length.
            return not self._is_near(rows) and (shape[1] == rows or self._is_near(shape[1]))
        if at == 1 and len(shape) > 3 and shape[0] == rows:
            # Before heads; what stands behind the samples else are heads.
            return self._is_flattened(shape)
        if at == len(shape) - 1 and not self._is_of_convolution(shape):
            return not self._has_width(shape)
        return at != 1 or not self._is_of_convolution(shape)

    def _is_of_convolution(self, shape: Sequence[int]) -> bool:
        return (len(shape), shape[1]) in self.channels

    def _has_width(self, shape: Sequence[int]) -> bool:
        """Whether the last dimension may be features: what products with weights take and give is laid out as rows of them."""
        return any(len(each) == 2 and each[1] == shape[-1] for each in self.shapes)

    def _is_flattened(self, shape: Sequence[int]) -> bool:
        """Whether the graph holds as many elements as a row for each place, too."""
        elements, rows = math.prod(shape), self.batch.rows
        return any((rows * size, elements // (rows * size)) in self.shapes for size in {*filter(self._is_near, shape), self.batch.length})

    def _holds_all(self, shape: Sequence[int]) -> bool:
        """Whether it has a row for each place of all sequences, or for each head of each.

        Two dimensions of which one is as long as a sequence may be samples and features.
        """
        places, rest = divmod(shape[0], self.batch.rows)
        if rest or not places:
            return False
        if self._is_near(places) and len(shape) <= 2:
            return True
        return places >= self.batch.length - OFF_BY and self._is_flattened(shape)


def find_layout(shapes: Iterable[tuple[Dimensions, bool]], batch: Batch) -> Layout:
    """Of the shapes of a graph, each with whether it comes of a product with weights: of more than two dimensions only convolutions' do."""
    found = list(shapes)
    return Layout(
        batch=batch,
        shapes=frozenset(shape for shape, _ in found),
        channels=frozenset((len(shape), shape[1]) for shape, is_product in found if is_product and len(shape) > 2),
    )
