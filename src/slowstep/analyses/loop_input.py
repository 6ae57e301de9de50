"""Input that a loop without a loader makes for itself: what it takes, and what of it a loader's workers could take over."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.calls import DOMINANT_SHARE, Function, dominant_within, read_calls
from slowstep.analyses.functions import shown
from slowstep.analyses.gaps import BACKGROUND, ROLL_OUT
from slowstep.analyses.ledger import CORE, Ledger
from slowstep.analyses.producers import OF_LOADER, UNSEEN
from slowstep.analyses.python_share import find_python_share
from slowstep.analyses.steps import Floats
from slowstep.analyses.trainer import Trainer
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Maker:
    """A function that makes input, where its calls were timed: its file, the function in it that holds at least DOMINANT_SHARE of it, and
    the share of it that is a loop in Python (None: not known).
    """

    file: str
    inner: Function | None
    python_share: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopInput:
    """ns per step, shape (steps,). `made_ns` is what the loop does before its forward, `blocked_ns` and `delay_ns` what it was blocked and
    waited for a core in it; `others_ns` is input that no worker could take over: waiting for the script's own threads, and roll-outs.

    `parts` are those of `made_ns`, `name` the largest of them, known by `stacks` of `of_stacks` that were taken outside the steps' bodies.
    """

    made_ns: Floats
    blocked_ns: Floats
    delay_ns: Floats
    others_ns: Floats
    parts: tuple[str, ...]
    name: str | None
    maker: Maker | None  # that one
    other: str | None
    stacks: int
    of_stacks: int
    timed: int  # gaps in which they were timed; 0 where stacks alone tell


def find_loop_input(timeline: Timeline, trainer: Trainer, ledger: Ledger) -> LoopInput | None:
    """What the ledger, and the calls that were timed in gaps, say of input; None in a loop that is fed.

    What a loader takes whose batches serve several updates each is no part of it.
    """
    if trainer.is_fed:
        return None
    mine = [name for stage, name in ledger.parts if stage == "preprocess" and name not in OF_LOADER]
    others = [name for name in mine if name.startswith((BACKGROUND, ROLL_OUT))]
    made = [name for name in mine if name not in others]
    made_ns = ledger.of("preprocess", *made) if made else ledger.of("preprocess", "")
    others_ns = ledger.of("preprocess", *others) if others else ledger.of("preprocess", "")
    both = float(made_ns.sum() + others_ns.sum())
    name = _largest(ledger, made)
    delay_ns = ledger.of("preprocess", CORE) * (float(made_ns.sum()) / both if both else 0.0)
    return LoopInput(
        made_ns=made_ns,
        blocked_ns=ledger.of("read", UNSEEN),
        delay_ns=delay_ns,
        others_ns=others_ns,
        parts=tuple(made),
        name=name,
        maker=_maker(timeline, trainer, name),
        other=_largest(ledger, others),
        stacks=sum(n for (stage, name), n in ledger.gap_stacks.items() if stage == "preprocess" and name in made),
        of_stacks=sum(ledger.gap_stacks.values()),
        timed=max((ledger.timed.get(("preprocess", name), 0) for name in made), default=0),
    )


def _largest(ledger: Ledger, names: list[str]) -> str | None:
    return max(names, key=lambda name: ledger.total("preprocess", name), default=None)


def _maker(timeline: Timeline, trainer: Trainer, name: str | None) -> Maker | None:
    """The function that the ledger calls `name`."""
    calls = read_calls(timeline.table("calls"), timeline.table("call_edges"), "gap", [trainer.process])
    root = next((key for key in calls.total_ns if name == f"{key[1]} ({shown(key[0], trainer.facts.script)}:{key[2]})"), None)
    if root is None:
        return None
    python_share = find_python_share(timeline, trainer.process, calls, root)
    return Maker(file=root[0], inner=dominant_within(calls, root, DOMINANT_SHARE), python_share=python_share)
