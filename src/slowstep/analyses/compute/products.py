"""What the usual backward pass multiplies, operation by operation, and how long its backward takes in each.

Nothing is told where passes differ, where the time of backward holds more than what the graph tells (Python of hooks, a forward that is
computed again, other ranks), or where nobody looked.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import Enum
from statistics import median

import polars as pl

from slowstep.analyses.compute.pass_work import looks_of_training
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import named
from slowstep.frameworks._words import Named
from slowstep.timeline.timeline import Timeline

# A last batch of an epoch is smaller; where more passes than these differ from the usual one, its work is not that of a step.
MOST_UNUSUAL = 0.1
# What graphs call an operation, by the last name of a layer or function that is this one alone.
_KINDS = {"convolution": named(Named.CONVOLVES), "matrices": named(Named.MULTIPLIES), "attention": named(Named.ATTENDS)}


class WhyUnknown(Enum):
    """Why it is not known what operations compute."""

    NOT_LOOKED = "not-looked"
    RANKS = "ranks"
    CALLS_PYTHON = "calls-python"
    PASSES_DIFFER = "passes-differ"


@dataclass(frozen=True, kw_only=True, slots=True)
class Multiplying:
    """Operations of a pass that do the same, `count` of them. Of each, products of two elements and elements moved at least, forward and
    backward, and how long the longest takes in backward. None is unknown.
    """

    kind: str
    shape: tuple[int, ...]
    count: int
    products: int | None
    backward: int | None
    moved: int | None
    moved_back: int | None
    longest_ns: float | None
    kernel: tuple[int, ...] = ()  # lengths of a convolution's; none where that is not known

    @property
    def all_products(self) -> int | None:
        """Of all of them, forward and backward."""
        return None if self.products is None or self.backward is None else self.count * (self.products + self.backward)

    @property
    def kernel_elements(self) -> float | None:
        """Elements of a convolution's kernel, by the places that it steps by and the groups that it has: 121 of one of 11 by 11, a quarter
        of that where it goes by two in each direction. None where shapes do not tell, and of all else.
        """
        given = math.prod(self.shape)
        if not self.kernel or self.products is None or self.moved is None or not given:
            return None
        channels = self.shape[1]
        of_each = self.products / given
        taken = self.moved - given - of_each * channels
        return of_each * given / channels / taken if taken > 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class PassProducts:
    """The operations of the usual pass that multiply; `unknown` are those of which it is not known what they compute, by name."""

    operations: tuple[Multiplying, ...]
    unknown: tuple[str, ...]

    @property
    def all_products(self) -> int | None:
        """Of all of them; None where some are not known."""
        each = [operation.all_products for operation in self.operations]
        return None if self.unknown or None in each else sum(products or 0 for products in each)


def kind_of(name: str) -> str | None:
    """The kind of operation that a layer or function is, by its last name, as graphs call it (`Multiplying.kind`); None for any other."""
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(name)), None)


def find_products(timeline: Timeline, trainer: Trainer, calls_python: bool | None) -> PassProducts | WhyUnknown:
    """Of the size that nearly all passes have; `calls_python`: whether autograd's engine does, None where that is not known."""
    looks, graphs, work = (looks_of_training(timeline, trainer, name) for name in ("graph_products", "graphs", "graph_work"))
    if looks.is_empty():
        return WhyUnknown.NOT_LOOKED
    if (trainer.facts.world_size or 1) > 1:
        return WhyUnknown.RANKS
    if calls_python is not False:
        return WhyUnknown.CALLS_PYTHON
    times = _usual_times(graphs)
    passes = _passes(looks.filter(pl.col("time_ns").is_in(list(times))))
    if not times or len({frozenset(each) for each in passes}) > 1:
        return WhyUnknown.PASSES_DIFFER
    if not passes:
        return WhyUnknown.NOT_LOOKED
    unknown = work.filter(pl.col("time_ns").is_in(list(times)))["unknown"].to_list()
    return PassProducts(
        operations=tuple(_operation(key, passes) for key in sorted(passes[0], key=str)),
        unknown=tuple(sorted({name for names in unknown for name in names})),
    )


# Kind, shape, how many, what one computes, and a convolution's kernel.
_Key = tuple[str, tuple[int, ...], int, int | None, int | None, int | None, int | None, tuple[int, ...]]


def _usual_times(graphs: pl.DataFrame) -> set[int]:
    """When passes of the usual size were looked at; none where too many have another."""
    sizes = graphs.select("nodes", "parameters", "values").rows()
    counted = Counter(sizes).most_common(1)
    if not counted or counted[0][1] < (1 - MOST_UNUSUAL) * len(sizes):
        return set()
    return {at for at, size in zip(graphs["time_ns"].to_list(), sizes, strict=True) if size == counted[0][0]}


def _passes(looks: pl.DataFrame) -> list[dict[_Key, int | None]]:
    """Of each that was looked at the longest backward of each group of operations."""
    passes: dict[int, dict[_Key, int | None]] = defaultdict(dict)
    for row in looks.iter_rows(named=True):
        work = (row["products"], row["backward"], row["moved"], row["moved_back"])
        key = (row["kind"], tuple(row["shape"]), row["count"], *work, tuple(row["kernel"] or ()))
        passes[row["time_ns"]][key] = row["longest_ns"]
    return list(passes.values())


def _operation(key: _Key, passes: list[dict[_Key, int | None]]) -> Multiplying:
    times = [each[key] for each in passes]
    longest = [time for time in times if time is not None]
    kind, shape, count, products, backward, moved, moved_back, kernel = key
    return Multiplying(
        kind=kind,
        shape=shape,
        count=count,
        products=products,
        backward=backward,
        moved=moved,
        moved_back=moved_back,
        longest_ns=median(longest) if len(longest) == len(times) else None,
        kernel=kernel,
    )
