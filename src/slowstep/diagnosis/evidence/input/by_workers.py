"""What a step takes where worker processes make the batches that now the training's own process makes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slowstep.analyses.batches.made_by_loader import MadeByLoader
from slowstep.analyses.batches.transfer import RECEIVE_NS
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import DOMINANT_SHARE
from slowstep.diagnosis.evidence.input.input_side import (
    RECEIVE_HIGH_NS,
    RECEIVE_LOW_NS,
    SIDE_BY_SIDE,
    InputSide,
    concurrent_ns,
    cores_left_by_others,
)
from slowstep.diagnosis.evidence.input.kept_workers import changed_between_epochs, of_their_generators
from slowstep.diagnosis.evidence.spread import EXACT, TimeSpread
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_queued, unknown_gain
from slowstep.diagnosis.lever_specs import fix_of_its_loader, is_marked
from slowstep.diagnosis.lever_specs import workers as workers_lever
from slowstep.diagnosis.rule import CLAIM
from slowstep.findings import Evidence, EvidenceCode, Fix, Gain
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_count


@dataclass(frozen=True, kw_only=True, slots=True)
class HandedOver:
    """What workers would make for the training thread: the side with nothing else removable, and batches to receive per step.

    `loaders` of the training's get workers, None where all do; `datasets` are theirs, empty where these do not tell them from the others.
    """

    side: InputSide
    receipts: float = 1.0
    loaders: int | None = None
    datasets: tuple[str, ...] = ()


def handed_over(m: Measurements, side: InputSide) -> HandedOver:
    """Of several loaders only those get workers whose batches take longer to make than to receive, where there are any."""
    made = m.input.made_by_loader
    slow = [loader for loader in made if loader.each_ns > RECEIVE_NS] or list(made)
    if not slow:
        return HandedOver(side=side)
    receipts = sum(loader.batches for loader in slow) / m.steps.count
    if len(slow) == len(made):
        return HandedOver(side=side, receipts=receipts)
    removable = np.minimum(np.sum([loader.ns for loader in slow], axis=0), side.removable_ns)
    part = float(removable.sum()) / max(float(side.removable_ns.sum()), 1.0)
    kept = replace(
        side,
        removable_ns=removable,
        rest_ns=float(m.step_ns.mean() - removable.mean()),
        wall_ns=part * side.wall_ns,
        delay_ns=part * side.delay_ns,
        cpu_ns=part * side.cpu_ns,
        trainer_cpu_ns=side.trainer_cpu_ns + (1 - part) * side.cpu_ns,
    )
    return HandedOver(
        side=kept, receipts=receipts, loaders=len(slow), datasets=_names(slow, [loader for loader in made if loader.each_ns <= RECEIVE_NS])
    )


def _names(slow: list[MadeByLoader], others: list[MadeByLoader]) -> tuple[str, ...]:
    """The data sets of slow loaders; none where one has no name, or others have a data set of the same."""
    names = [loader.dataset for loader in slow if loader.dataset is not None]
    is_told = len(set(names)) == len(slow) and not {loader.dataset for loader in others}.intersection(names)
    return tuple(names) if is_told else ()


def leave_most(m: Measurements, side: InputSide) -> bool:
    """Whether workers would leave the training thread most of what making batches takes it now: receiving them takes time, too."""
    handed = handed_over(m, side)
    taken = float(handed.side.removable_ns.mean()) - handed.receipts * RECEIVE_NS
    return taken < (1 - DOMINANT_SHARE) * float(side.removable_ns.mean())


def fix_by_workers(m: Measurements, handed: HandedOver, workers: int) -> Fix:
    """Workers for a loader that has none, with the lever that tries them; input of the script's own is made beside the training."""
    words = m.training.words
    if is_marked(m):
        return Fix(text=words.advise(Remedy.MAKE_ASIDE, workers=words.write({Remedy.WORKERS: workers}) or "worker processes"))
    changes: dict[Remedy, object] = {Remedy.WORKERS: workers}
    if not changed_between_epochs(m):
        changes[Remedy.PERSISTENT_WORKERS] = True
    text = words.write(changes) or words.advise(Remedy.WORKERS)
    return fix_of_its_loader(m, text + _for(m, handed) + _of_stream(m) + of_their_generators(m), workers_lever(workers))


def _of_stream(m: Measurements) -> str:
    """What more workers than one ask for, where each may give all samples."""
    if (how := how_to_divide(m)) is not None:
        return f"; more than one may each give all samples: first {how}"
    return unless_each_draws(m)


def how_to_divide(m: Measurements) -> str | None:
    """What to change in a stream of which each worker may give all samples; None of other data sets."""
    loader = m.input.loader
    return None if loader is None or loader.divides is not False else _divided(m, loader.dataset)


def unless_each_draws(m: Measurements) -> str:
    """What is to be sure of before there are several workers for a stream that draws at random; empty of other data sets."""
    loader = m.input.loader
    if loader is None or not loader.draws:
        return ""
    return f"; more than one may each give all samples, unless each worker draws its own: if not, first {_divided(m, loader.dataset)}"


def _divided(m: Measurements, dataset: str | None) -> str:
    return m.training.words.advise(Remedy.DIVIDE_STREAM, stream=dataset or "the data set")


def _for(m: Measurements, handed: HandedOver) -> str:
    """Which of several loaders, where the others are faster without workers."""
    if handed.loaders is None:
        return ""
    count = len(m.input.made_by_loader)
    of = f"the loader{'s' if len(handed.datasets) > 1 else ''} of {' and '.join(handed.datasets)}"
    which = of if handed.datasets else f"{handed.loaders} of the {count} loaders"
    other = "other's" if count - handed.loaders == 1 else "others'"
    return f" for {which}: the {other} batches take longer to receive than to make"


def made_by_workers(side: InputSide, workers: int, spread: TimeSpread = EXACT, receipts: float = 1.0) -> Counterfactual:
    """`spread`: how far off what is removed may be, where stacks tell it. `receipts`: batches per step."""

    shared = cores_left_by_others(side, workers)

    def case(receive_ns: float, cores: float, slowed: float = 0.0, part: float = 1.0, factor: float = 1.0) -> Case:
        received = receipts * receive_ns
        removed = part * side.removable_ns - received - slowed * side.rest_ns
        # Receiving is work that was not there before.
        beside = factor * concurrent_ns(side, workers, spared_cpu_ns=-received, cores=cores)
        return Case(removed_ns=removed, concurrent_ns=beside, delay_share=share_queued(part * side.own_queued_ns, removed))

    words = f"{format_count(workers, 'worker')} made the batches in parallel to the training, and receiving one took 1 ms"
    pessimistic = case(RECEIVE_HIGH_NS, shared, SIDE_BY_SIDE, spread.low, PESSIMISTIC_BESIDE)
    optimistic = case(RECEIVE_LOW_NS, side.cores, part=spread.high)
    return Counterfactual(assumes=words, expected=case(RECEIVE_NS, shared), pessimistic=pessimistic, optimistic=optimistic)


def gain_by_workers(m: Measurements, counterfactual: Counterfactual, taken: str | None) -> Gain | None:
    """The gain of workers, unknown where they find no cores: `taken` says what would have to be assumed (None: they find enough).

    None where they find no cores, and would gain less than is worth a claim even on cores of their own: only more could be unknown.
    """
    gain = predict(m, counterfactual)
    if taken is None:
        return gain
    return unknown_gain(taken) if gain.predicted is not None and gain.predicted * (1 - CLAIM) >= 1.0 else None


def workers_set(m: Measurements, workers: int, *, threshold: float | None = None, where: str | None = None) -> Evidence:
    """How many workers a loader has, by the name of the argument that sets them where it has one."""
    name = m.training.words.name_of(Remedy.WORKERS, "")
    code = EvidenceCode.SETTING if name else None
    return Evidence(name=name or "workers", value=workers, unit="workers", threshold=threshold, where=where, code=code)
