"""What a report leaves out because it does not change the answer: counted, so that the page can say it."""

from __future__ import annotations

from dataclasses import dataclass, field

from slowstep.units import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What was left out so far, in the order in which it would have been read; `verbose` leaves out nothing."""

    verbose: bool = False
    counts: dict[tuple[str, str | None], int] = field(default_factory=dict)

    def count(self, number: int, noun: str, plural: str | None = None) -> None:
        """So many more things of a kind were left out."""
        if number > 0:
            self.counts[noun, plural] = self.counts.get((noun, plural), 0) + number

    def name(self, what: str) -> None:
        """A thing of which there is only one was left out."""
        self.counts[what, ""] = 1

    def words(self) -> str:
        """All of it, in a few words; nothing where nothing is missing."""
        return ", ".join(noun if plural == "" else format_count(number, noun, plural) for (noun, plural), number in self.counts.items())
