"""Batches that cost nothing to make, in place of a data source: what is left of a training's time is not its input.

    for images, labels in slowstep.data.FakeBatches([(64, 3, 224, 224), (64,)], ["float32", "int64"]):
        ...

What tensorpack's `FakeData` is for its data flows. Nothing else of slowstep is needed by it, and nothing of it by slowstep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

__all__ = ["FakeBatches"]


class FakeBatches:
    """An iterable of `length` batches, each a list of one array for each of `shapes`: tensors where torch is installed, else of numpy.

    The values lie evenly in `domain` (low, high), one pair for all arrays or one for each; of whole numbers the upper end is left out.
    Without `random` all batches are the same arrays, made once; with it each batch is made anew, which takes time of its own. A batch holds
    the whole shape: the batch size is part of it. Every `iter` begins again with the same values.

    Raises ValueError for shapes, types and domains of which there are not equally many, TypeError for a shape that is none and for a type
    that is unknown, and ImportError without torch and numpy.
    """

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        dtypes: Any = "float32",
        random: bool = False,
        *,
        length: int = 1000,
        domain: Sequence[Any] = (0, 1),
        seed: int = 0,
    ) -> None:
        if not all(isinstance(shape, Sequence) for shape in shapes):
            raise TypeError(f"shapes={shapes!r}: give a list with one shape for each array, such as [(64, 3), (64,)].")
        self.shapes = [tuple(shape) for shape in shapes]
        count = len(self.shapes)
        self.dtypes = [dtypes] * count if isinstance(dtypes, str) or not isinstance(dtypes, Sequence) else list(dtypes)
        self.domains = [(low, high) for low, high in domain] if isinstance(domain[0], Sequence) else [(domain[0], domain[1])] * count
        if not len(self.dtypes) == len(self.domains) == count:
            raise ValueError(
                f"{count} shapes, {len(self.dtypes)} dtypes, {len(self.domains)} domains: give one for all arrays or one for each."
            )
        if length < 0:
            raise ValueError(f"length={length}: give how many batches there are, 0 or more.")
        self.random, self.length, self._seed = random, length, seed
        self._maker = _maker()
        for dtype in self.dtypes:
            # Now, where it was said, and not at the first batch.
            self._maker(seed)((0,), dtype, 0, 1)
        self._constant: list[Any] | None = None

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[list[Any]]:
        draw = self._maker(self._seed)
        if self.random:
            for _ in range(self.length):
                yield self._made(draw)
            return
        if self._constant is None:
            self._constant = self._made(draw)
        for _ in range(self.length):
            # A list of its own each time: whoever changes it changes no other batch. The arrays are the same ones.
            yield list(self._constant)

    def _made(self, draw: Any) -> list[Any]:
        return [draw(shape, dtype, low, high) for shape, dtype, (low, high) in zip(self.shapes, self.dtypes, self.domains, strict=True)]


def _maker() -> Any:
    """What makes arrays: of torch where it is installed, else of numpy. Imported by name, so that importing this file needs neither."""
    for name, maker in (("torch", _TorchArrays), ("numpy", _NumpyArrays)):
        try:
            module = import_module(name)
        except ImportError:
            continue
        return lambda seed: maker(module, seed)
    raise ImportError("FakeBatches makes arrays of torch or of numpy, and neither is installed. Install one of them: pip install numpy.")


class _TorchArrays:
    """Draws tensors from a generator of its own: the script's random numbers stay as they are."""

    def __init__(self, torch: Any, seed: int) -> None:
        self._torch, self._generator = torch, torch.Generator().manual_seed(seed)

    def __call__(self, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
        kind = getattr(self._torch, dtype, None) if isinstance(dtype, str) else dtype
        if not isinstance(kind, self._torch.dtype):
            raise TypeError(f"dtype {dtype!r} is none of torch's; give such as 'float32' or torch.int64.")
        if kind.is_floating_point or kind.is_complex:
            drawn = self._torch.rand(shape, generator=self._generator)
            return (drawn * (high - low) + low).to(kind)
        return self._torch.randint(int(low), max(int(high), int(low) + 1), shape, generator=self._generator).to(kind)


class _NumpyArrays:
    def __init__(self, numpy: Any, seed: int) -> None:
        self._numpy, self._generator = numpy, numpy.random.default_rng(seed)

    def __call__(self, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
        kind = self._numpy.dtype(dtype)
        if kind.kind in "fc":
            return (self._generator.random(shape) * (high - low) + low).astype(kind)
        return self._generator.integers(int(low), max(int(high), int(low) + 1), shape).astype(kind)
