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
    Without `random` all batches are the same arrays, made once; with it each batch is made again, which takes time of its own. Batch number
    i is the same whenever and wherever it is made: `iter` begins again with the same values.

    It is read by a loop, or by number, so a torch DataLoader takes it as a data set. Its samples are whole batches: say `batch_size=None`,
    as in `DataLoader(FakeBatches(...), batch_size=None, num_workers=2)`; else the loader makes batches of batches. It can be pickled.

    Raises ValueError for shapes, types and domains of which there are not equally many, a negative size or length, and a domain whose ends
    are the wrong way round or not finite, or whose values the type cannot hold (300 as uint8, 1e6 as float16, none between 0.5 and 0.7 as
    int64); TypeError for what is no shape, type, domain or length; and ImportError without torch and numpy.
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
        number = operator.index(index)
        if not -self.length <= number < self.length:
            raise IndexError(f"There is no batch {number}: there are {self.length}.")
        if self.random:
            return self._made(number % self.length)
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
    least, most = draw.holds(dtype)
    first, last = (low, high) if isinstance(most, float) else _whole_numbers(dtype, low, high)
    if first < least or last > most:
        raise ValueError(f"domain ({low}, {high}): dtype {dtype!r} holds {least} to {most}. Give a domain within, or a larger type.")
    try:
        draw((0,), dtype, low, high)
    except (RuntimeError, ValueError, OverflowError) as error:
        raise TypeError(f"no array of dtype {dtype!r} can be made with values in ({low}, {high}): {error}") from error


def _whole_numbers(dtype: Any, low: float, high: float) -> tuple[int, int]:
    """The first and the last whole number of a domain without its upper end; of one whose ends are the same, that number."""
    first = math.ceil(low)
    last = first if low == high == first else math.ceil(high) - 1
    if last < first:
        raise ValueError(f"domain ({low}, {high}): no whole number lies in it for dtype {dtype!r} (its upper end is left out).")
    return first, last


class _TorchArrays:
    """Draws tensors from a generator of its own: the script's random numbers stay as they are."""

    def __init__(self, seed: int) -> None:
        self._torch = import_module("torch")
        self._generator = self._torch.Generator().manual_seed(seed)

    def __call__(self, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
        kind = self._kind(dtype)
        if _is_real_or_complex(kind):
            # Numbers that only 64 bits hold are infinite in 32.
            is_wide = kind in (self._torch.float64, self._torch.complex128)
            drawn = self._torch.rand(shape, generator=self._generator, dtype=self._torch.float64 if is_wide else self._torch.float32)
            # Not low + drawn * (high - low): the difference of two ends that a type holds may be more than it holds.
            return (drawn * high + (1 - drawn) * low).to(kind)
        first, last = _whole_numbers(dtype, low, high)
        return self._torch.randint(first, last + 1, shape, generator=self._generator).to(kind)

    def holds(self, dtype: Any) -> tuple[float, float]:
        """The least and the largest number of a type: floats of one with fractions. Raises TypeError for what is no type of torch's."""
        kind = self._kind(dtype)
        if _is_real_or_complex(kind):
            return -self._torch.finfo(kind).max, self._torch.finfo(kind).max
        return (0, 1) if kind is self._torch.bool else (self._torch.iinfo(kind).min, self._torch.iinfo(kind).max)

    def _kind(self, dtype: Any) -> Any:
        """Torch's type for a name, or for a type of numpy or Python, by numpy's name for it."""
        if isinstance(dtype, str):
            kind = getattr(self._torch, dtype.removeprefix("torch."), None)
        else:
            kind = dtype if isinstance(dtype, self._torch.dtype) else getattr(self._torch, _numpy_name(dtype), None)
        if not isinstance(kind, self._torch.dtype):
            raise TypeError(f"dtype {dtype!r} is none of torch's; give such as 'float32', numpy.float32 or torch.int64.")
        return kind


def _is_real_or_complex(kind: Any) -> bool:
    return bool(kind.is_floating_point or kind.is_complex)


class _NumpyArrays:
    """Draws arrays of numpy."""

    def __init__(self, seed: int) -> None:
        self._numpy = import_module("numpy")
        self._generator = self._numpy.random.default_rng(seed)

    def __call__(self, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
        kind = self._kind(dtype)
        if kind.kind in "fc":
            drawn = self._generator.random(shape)
            return (drawn * high + (1 - drawn) * low).astype(kind)
        first, last = _whole_numbers(dtype, low, high)
        return self._generator.integers(first, last + 1, shape).astype(kind)

    def holds(self, dtype: Any) -> tuple[float, float]:
        """The least and the largest number of a type: floats of one with fractions. Raises TypeError for what is no type of numbers."""
        kind = self._kind(dtype)
        if kind.kind in "fc":
            return -float(self._numpy.finfo(kind).max), float(self._numpy.finfo(kind).max)
        return (0, 1) if kind.kind == "b" else (int(self._numpy.iinfo(kind).min), int(self._numpy.iinfo(kind).max))

    def _kind(self, dtype: Any) -> Any:
        name = _numpy_name(dtype.removeprefix("torch.") if isinstance(dtype, str) else dtype)
        kind = self._numpy.dtype(name) if name else None
        if kind is None or kind.kind not in "fciub":
            raise TypeError(f"dtype {dtype!r} is no type of numbers of numpy's; give such as 'float32' or numpy.int64.")
        return kind


def _numpy_name(dtype: Any) -> str:
    """Numpy's name for a type; "" for what is none, and where numpy is missing."""
    try:
        # None is float64 to numpy, and nothing that anybody meant.
        return "" if dtype is None else str(import_module("numpy").dtype(dtype).name)
    except (ImportError, TypeError, ValueError):
        return ""
