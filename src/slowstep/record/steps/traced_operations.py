"""How many operations a call of a traced function runs that trains: it bounds what a call takes however small the batch is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from slowstep.record.recorder import now
from slowstep.record.steps.spans import new_number

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# A larger graph is a long step, whose fixed cost is no question.
MOST_OPERATIONS: Final = 20_000
# A function that is traced more often is traced without end: as often tf.function warns (FREQUENT_TRACING_WARNING_THRESHOLD).
MOST_TRACES: Final = 5


class TooMany(Exception):
    """A graph has more operations than are looked at."""


@dataclass(frozen=True, slots=True)
class Operations:
    """At least `fewest` of them run in a call, and at most `most`; None where what is called decides."""

    fewest: int
    most: int | None

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.fewest + other.fewest, None if None in (self.most, other.most) else (self.most or 0) + (other.most or 0))


# What is called decides how many run.
ANY: Final = Operations(0, None)
ONE: Final = Operations(1, 1)


_OF_SINGLE: Final = ("most_products", "sorted", "scattered", "given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """What the operations of a call compute: products of two elements of all that multiply, and of the one that multiplies most; elements
    that the largest one gives of those that sort or add up along a length, that find or draw them one by one, and of all others.
    """

    products: int = 0
    most_products: int = 0
    sorted: int = 0
    scattered: int = 0
    given: int = 0

    @classmethod
    def of_one(cls, several: Sequence[Computed]) -> Computed:
        """Of one of several, whichever it is: the most that single operations compute, and the least that all of them multiply."""
        most = {name: max((getattr(each, name) for each in several), default=0) for name in _OF_SINGLE}
        return cls(products=min((each.products for each in several), default=0), **most)

    def __add__(self, other: Computed) -> Computed:
        return replace(self.of_one((self, other)), products=self.products + other.products)

    def __mul__(self, times: int) -> Computed:
        return Computed(**{name: times * value for name, value in asdict(self).items()})


@dataclass(frozen=True, slots=True)
class TraceSize:
    """What one trace runs in a call, the elements of all variables that it reads, and what it computes; None where that is not known."""

    operations: Operations
    elements: int | None
    computed: Computed | None = None


UNBOUNDED: Final = TraceSize(ANY, None)


class Traces:
    """Those of one function that trains."""

    def __init__(self, framework: str) -> None:
        self._framework, self._number = framework, new_number()
        self.noted = 0

    def note(self, recorder: Recorder, size_of: Callable[[], TraceSize]) -> None:
        """Note the size of one more trace; of one too many only that nothing bounds them any more. Raises what `size_of` does beside
        TooMany, of which it is only noted that it is there.
        """
        if self.noted > MOST_TRACES:
            return
        began_ns = now()
        try:
            size = size_of() if self.noted < MOST_TRACES else UNBOUNDED
        except TooMany:
            size = UNBOUNDED
        told = {"fewest": size.operations.fewest, "most": size.operations.most, "elements": size.elements}
        computed = {} if size.computed is None else asdict(size.computed)
        recorder.introduce({"kind": "operations", "framework": self._framework, "function": self._number, **told, **computed})
        self.noted += 1
        if self.noted == 1:
            recorder.once_ns += now() - began_ns
        else:
            recorder.spent_ns += now() - began_ns
