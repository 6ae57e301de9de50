"""A call in which a lever has several steps made that are calls of their own as it is: its time is theirs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCall:
    """A call that began at an instant (ns), and that made so many `steps`, as steps are counted in the training as it is."""

    steps: int
    began_ns: int

    def edges_ns(self, since_ns: int, ended_ns: int, most: int) -> list[int]:
        """Where its steps begin and end, `most` of them at most, from the instant at which the call before it ended.

        What passed between the two calls is the first step's, where it is seen if it was long. Of steps that a block has no room for
        nothing is counted: the others have their share of both.
        """
        count = min(self.steps, most)
        between_ns = (self.began_ns - since_ns) * count // self.steps
        each_ns = (ended_ns - self.began_ns) / self.steps
        return [since_ns, *(since_ns + between_ns + int(each_ns * number) for number in range(1, count + 1))]
