"""Batches that cost nothing to make, in place of a data source: what is left of a training's time is not its input.

    for images, labels in slowstep.data.FakeBatches([(64, 3, 224, 224), (64,)], ["float32", "int64"]):
        ...

What tensorpack's `FakeData` is for its data flows. Nothing else of slowstep is needed by it, and nothing of it by slowstep.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from importlib import import_module
from numbers import Real
from typing import Any, Final

__all__ = ["FakeBatches"]

# Seeds of neighbouring numbers share no batch before this one.
_SEED_APART: Final = 1_000_003
_SEEDS: Final = 1 << 63


class FakeBatches:
    """`length` batches, each a list of one array for each of `shapes`: tensors where torch is installed, else of numpy.

    `dtypes` are names ("float32", "torch.float32"), or types of torch or numpy. The values lie evenly in `domain` (low, high), one pair for
    all arrays or one for each; of whole numbers the upper end is left out. A batch holds the whole shape: the batch size is part of it.
    Without `random` all batches are the same arrays, made once; with it each batch is made anew, which takes time of its own. Batch number
    i is the same whenever and wherever it is made: `iter` begins again with the same values.

    It is read by a loop, or by number, so a torch DataLoader takes it as a data set. Its samples are whole batches: say `batch_size=None`,
    as in `DataLoader(FakeBatches(...), batch_size=None, num_workers=2)`; else the loader makes batches of batches. It can be pickled.

    Raises ValueError for shapes, types and domains of which there are not equally many, a negative size or length, and a domain whose ends
    are the wrong way round or not finite; TypeError for what is no shape, type, domain or length; and ImportError without torch and numpy.
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
        self.shapes = _shapes(shapes)
        count = len(self.shapes)
        self.dtypes = list(dtypes) if isinstance(dtypes, Sequence) and not isinstance(dtypes, str) else [dtypes] * count
        self.domains = _domains(domain, count)
        if not len(self.dtypes) == len(self.domains) == count:
            raise ValueError(
                f"{count} shapes, {len(self.dtypes)} dtypes, {len(self.domains)} domains: give one for all arrays or one for each."
            )
        self.random, self.length, self._seed = (
            random,
            _whole(f"length={length!r}", length, "how many batches there are"),
            operator.index(seed),
        )
        self._arrays = _arrays()
        for dtype, (low, high) in zip(self.dtypes, self.domains, strict=True):
            # Now, where it was said, and not at the first batch.
            _try(self._arrays(0), dtype, low, high)
        self._constant: list[Any] | None = None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> list[Any]:
        number = range(self.length)[operator.index(index)]
        if self.random:
            return self._made(number)
        if self._constant is None:
            self._constant = self._made(0)
        # A list of its own each time: whoever changes it changes no other batch. The arrays are the same ones.
        return list(self._constant)

    def __iter__(self) -> Iterator[list[Any]]:
        return (self[number] for number in range(self.length))

    def __getstate__(self) -> dict[str, Any]:
        # Whoever gets it makes the arrays again: they may be large, and are the same.
        return self.__dict__ | {"_constant": None}

    def _made(self, number: int) -> list[Any]:
        draw = self._arrays((self._seed * _SEED_APART + number) % _SEEDS)
        return [draw(shape, dtype, low, high) for shape, dtype, (low, high) in zip(self.shapes, self.dtypes, self.domains, strict=True)]


def _shapes(shapes: Any) -> list[tuple[int, ...]]:
    if not _is_list(shapes) or not all(_is_list(shape) for shape in shapes):
        raise TypeError(f"shapes={shapes!r}: give a list with one shape for each array, such as [(64, 3), (64,)].")
    return [tuple(_whole(f"shape {tuple(shape)}", size, "its sizes, the batch size among them,") for size in shape) for shape in shapes]


def _domains(domain: Any, count: int) -> list[tuple[Any, Any]]:
    is_one_each = _is_list(domain) and len(domain) > 0 and all(_is_list(pair) for pair in domain)
    pairs = list(domain) if is_one_each else [domain]
    for pair in pairs:
        if not _is_list(pair) or len(pair) != 2 or not all(isinstance(end, Real) for end in pair):
            raise TypeError(f"domain={domain!r}: give (low, high), or one such pair for each array.")
        if not all(math.isfinite(end) for end in pair) or pair[0] > pair[1]:
            raise ValueError(f"domain={domain!r}: give two finite numbers, and the lower one first.")
    return [(low, high) for low, high in (pairs if is_one_each else pairs * count)]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _whole(said: str, value: Any, what: str) -> int:
    message = f"{said}: give {what} in whole numbers, 0 or more."
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(message) from None
    if number < 0:
        raise ValueError(message)
    return number


def _arrays() -> Any:
    """What makes arrays: of torch where it is installed, else of numpy. Imported by name, so that importing this file needs neither."""
    for name, arrays in (("torch", _TorchArrays), ("numpy", _NumpyArrays)):
        try:
            import_module(name)
        except ImportError:
            continue
        return arrays
    raise ImportError("FakeBatches makes arrays of torch or of numpy, and neither is installed. Install one of them: pip install numpy.")


def _try(draw: Any, dtype: Any, low: Any, high: Any) -> None:
    try:
        draw((0,), dtype, low, high)
    except (RuntimeError, ValueError, OverflowError) as error:
        raise TypeError(f"no array of dtype {dtype!r} can be made with values in ({low}, {high}): {error}") from error


class _TorchArrays:
    """Draws tensors from a generator of its own: the script's random numbers stay as they are."""

    def __init__(self, seed: int) -> None:
        self._torch = import_module("torch")
        self._generator = self._torch.Generator().manual_seed(seed)

    def __call__(self, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
        kind = self._kind(dtype)
        if not isinstance(kind, self._torch.dtype):
            raise TypeError(f"dtype {dtype!r} is none of torch's; give such as 'float32', numpy.float32 or torch.int64.")
        if kind.is_floating_point or kind.is_complex:
            drawn = self._torch.rand(shape, generator=self._generator)
            return (drawn * (high - low) + low).to(kind)
        return self._torch.randint(int(low), max(int(high), int(low) + 1), shape, generator=self._generator).to(kind)

    def _kind(self, dtype: Any) -> Any:
        """Torch's type for a name, or for a type of numpy or Python, by numpy's name for it."""
        if isinstance(dtype, str):
            return getattr(self._torch, dtype.removeprefix("torch."), None)
        return dtype if isinstance(dtype, self._torch.dtype) else getattr(self._torch, _numpy_name(dtype), None)


class _NumpyArrays:
    """Draws arrays of numpy."""

    def __init__(self, seed: int) -> None:
        self._numpy = import_module("numpy")
        self._generator = self._numpy.random.default_rng(seed)

    def __call__(self, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
        name = _numpy_name(dtype.removeprefix("torch.") if isinstance(dtype, str) else dtype)
        kind = self._numpy.dtype(name) if name else None
        if kind is None or kind.kind not in "fciub":
            raise TypeError(f"dtype {dtype!r} is no type of numbers of numpy's; give such as 'float32' or numpy.int64.")
        if kind.kind in "fc":
            return (self._generator.random(shape) * (high - low) + low).astype(kind)
        return self._generator.integers(int(low), max(int(high), int(low) + 1), shape).astype(kind)


def _numpy_name(dtype: Any) -> str:
    """Numpy's name for a type; "" for what is none, and where numpy is missing."""
    try:
        # None is float64 to numpy, and nothing that anybody meant.
        return "" if dtype is None else str(import_module("numpy").dtype(dtype).name)
    except (ImportError, TypeError, ValueError):
        return ""
