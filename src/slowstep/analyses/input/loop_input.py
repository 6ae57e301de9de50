"""Input that a loop without a loader makes for itself: what it takes, and what of it a loader's workers could take over."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.batches.producers import OF_LOADER
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.python.calls import DOMINANT_SHARE, TimedFunction, dominant_within, read_calls
from slowstep.analyses.python.functions import shown
from slowstep.analyses.python.python_share import find_python_share
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Maker:
    """A function that makes input, where its calls were timed: its file, the function in it that holds at least DOMINANT_SHARE of it, and
    the share of it that is a loop in Python (None: not known).
    """

    file: str
    inner: TimedFunction | None
    python_share: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopInput:
    """ns per step, shape (steps,). `made_ns` is what the loop does before its forward, `blocked_ns` and `delay_ns` what it was blocked and
    waited for a core in it; `others_ns` is input that no worker could take over: waiting for the script's own threads, and roll-outs.

    `parts` are those of `made_ns`, `largest` is that of them with most time, known by `stacks` of `of_stacks` that were taken outside the
    steps' bodies.
    """

    made_ns: Floats
    blocked_ns: Floats
    delay_ns: Floats
    others_ns: Floats
    parts: tuple[Part, ...]
    largest: Part | None
    maker: Maker | None  # that one
    other: Part | None
    stacks: int
    of_stacks: int
    timed: int  # gaps in which they were timed; 0 where stacks alone tell

    @property
    def claims(self) -> tuple[Part, ...]:
        """The parts of what workers could take over."""
        return (*self.parts, Part("preprocess", PartKind.CORE_WAIT), Part("read", PartKind.BLOCKED))


def find_loop_input(timeline: Timeline, trainer: Trainer, ledger: Ledger) -> LoopInput | None:
    """What the ledger, and the calls that were timed in gaps, say of input; None in a loop that is fed.

    What a loader takes whose batches serve several updates each is no part of it, and neither is what a framework reads by itself.
    """
    if trainer.is_fed:
        return None
    known_apart = (*OF_LOADER, PartKind.INPUT_WAIT, PartKind.CORE_WAIT)
    mine = [part for part in ledger.parts if part.stage == "preprocess" and part.kind not in known_apart]
    others = [part for part in mine if part.kind in (PartKind.THREAD_WAIT, PartKind.ROLL_OUT)]
    made = [part for part in mine if part not in others]
    made_ns, others_ns = ledger.of_parts(*made), ledger.of_parts(*others)
    both = float(made_ns.sum() + others_ns.sum())
    largest = _largest(ledger, made)
    delay_ns = ledger.of("preprocess", PartKind.CORE_WAIT) * (float(made_ns.sum()) / both if both else 0.0)
    return LoopInput(
        made_ns=made_ns,
        blocked_ns=ledger.of("read", PartKind.BLOCKED),
        delay_ns=delay_ns,
        others_ns=others_ns,
        parts=tuple(made),
        largest=largest,
        maker=None if largest is None else _maker(timeline, trainer, largest),
        other=_largest(ledger, others),
        stacks=sum(n for part, n in ledger.gap_stacks.items() if part in made),
        of_stacks=sum(ledger.gap_stacks.values()),
        timed=max((ledger.timed.get(part, 0) for part in made), default=0),
    )


def _largest(ledger: Ledger, parts: list[Part]) -> Part | None:
    return max(parts, key=ledger.total_of, default=None)


def _maker(timeline: Timeline, trainer: Trainer, part: Part) -> Maker | None:
    """The function of a part."""
    calls = read_calls(timeline.table("calls"), timeline.table("call_edges"), "gap", [trainer.process])
    script, wanted = trainer.facts.script, (part.name, part.place)
    root = next((key for key in calls.total_ns if wanted == (key[1], CodePlace(shown(key[0], script), key[2]))), None)
    if root is None:
        return None
    python_share = find_python_share(timeline, trainer.process, calls, root)
    return Maker(file=root[0], inner=dominant_within(calls, root, DOMINANT_SHARE), python_share=python_share)
