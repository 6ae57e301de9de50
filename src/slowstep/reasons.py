"""Why something was not judged, or is in doubt, as data: a code, and the values that a sentence is made of. The words come last.

A wording is declared once, as a constant beside the code that gives the reason:

    FEW_BATCHES = Wording("few-batches", "only {batches:count batch|batches} came in the window; record longer")
    ...
    return NotJudged(rule=NAME, reason=FEW_BATCHES(batches=3))

`slowstep.reason_words` makes the sentence, and says what may stand behind the colon. Code decides by `reason.code` and `reason.values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from string import Formatter
from types import MappingProxyType
from typing import Final, TypeAlias, Union

# A number in base units (ns, bytes, shares of one), a name, or a reason that is part of another; None for a clause that is left out.
Value: TypeAlias = Union[int, float, str, "Reason", None]

# The one way of writing that takes a name.
OF_STAGE: Final = "stage"


@dataclass(frozen=True, slots=True)
class Wording:
    """A kind of reason: its code, and the template of its words, which names the values that it takes. Called, it is a reason."""

    code: str
    template: str

    @property
    def fields(self) -> Iterator[tuple[str, str]]:
        """The names of its values, each with how it is written (empty: as it is)."""
        return ((name, how or "") for _, name, how, _ in Formatter().parse(self.template) if name is not None)

    def __call__(self, **values: Value) -> Reason:
        """A reason of this kind."""
        return Reason(self.code, tuple(sorted(values.items())), self)


def _can_be_written(value: Value, how: str) -> bool:
    return isinstance(value, str if how == OF_STAGE else Real)


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: equal to another by its code and values. Made by calling a `Wording`, or read from where one was kept.

    Raises TypeError where it lacks one of the values of its wording, has one that it does not name, or no number where one is written: here
    a rule fails alone, and in the report all of it would.
    """

    code: str
    pairs: tuple[tuple[str, Value], ...]
    wording: Wording = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        fields, values = list(self.wording.fields), dict(self.pairs)
        names = {name for name, _ in fields}
        if missing := sorted(names - values.keys()):
            raise TypeError(f"reason {self.code!r} lacks {', '.join(missing)}")
        if unknown := sorted(values.keys() - names):
            raise TypeError(f"reason {self.code!r} has no {', '.join(unknown)}")
        if wrong := [name for name, how in fields if how and not _can_be_written(values[name], how)]:
            raise TypeError(f"reason {self.code!r} needs numbers for {', '.join(wrong)}, or names where these are stages")

    @property
    def values(self) -> Mapping[str, Value]:
        """Its values by name."""
        return MappingProxyType(dict(self.pairs))

    def holds(self, other: Reason) -> bool:
        """Whether it is the other one, or has it as a part."""
        return self == other or any(isinstance(value, Reason) and value.holds(other) for _, value in self.pairs)

    def of(self, *wordings: Wording) -> bool:
        """Whether it is of one of these kinds, or has such a part."""
        return self.wording in wordings or any(isinstance(value, Reason) and value.of(*wordings) for _, value in self.pairs)


# What slowstep itself has said, in words that begin with none of a name.
OWN_WORDS: Final = Wording("own-words", "{words}")
# What somebody else said: a lever inside the training, a framework, the system. It is shown as it was said.
SAID: Final = Wording("said", "{said}")
