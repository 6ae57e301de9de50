"""What `slowstep prove` was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.record.experiment.lever import LeverSpec
from slowstep.workflow.next_command.command_lines import place_words, precision_words
from slowstep.workflow.usual import USUAL_BUDGET_S, USUAL_PRECISION


@dataclass(frozen=True, kw_only=True, slots=True)
class ProveRequest:
    """What `slowstep prove` was asked for. `precision` is half the width of an interval as a share; without `levers` the findings' are
    tried, with `everything` all that there are. `out` is the folder for recordings, `sandbox` the kind that must be used; None: any.
    By `seed` blocks are drawn; None: by one that is drawn too.
    """

    words: tuple[str, ...]
    levers: tuple[LeverSpec, ...] = ()
    everything: bool = False
    precision: float = USUAL_PRECISION
    budget_s: float = USUAL_BUDGET_S
    seed: int | None = None
    out: str | None = None
    allow_writes: bool = False
    sandbox: str | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The words of the command line that ask for these levers."""
        if self.everything:
            return ("--all",)
        return ("--levers", ",".join(map(str, self.levers))) if self.levers else ()

    @property
    def kept(self) -> tuple[str, ...]:
        """The words for what was asked for besides, and is not as it is without them: for whichever levers it is to be asked for again."""
        words = () if self.precision == USUAL_PRECISION else precision_words(self.precision)
        return (*words, *place_words(out=self.out, allow_writes=self.allow_writes, sandbox=self.sandbox))
