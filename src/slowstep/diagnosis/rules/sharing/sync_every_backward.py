"""Every backward pass of a step shares gradients, once would do.

What it sees:
    A model in DistributedDataParallel, the only one of its process, in a job of several ranks, whose usual step adds up the gradients of
    two and more backward passes that share them. What the training thread was blocked in those before the last holds at least 3 % of the
    window (docs/definitions.md). Where that is not measured, as on an accelerator, it is advice.
Why it costs:
    Accumulated gradients are summed over the ranks in each pass, as many bytes as at the end, and each time all wait for the slowest.
How the gain is predicted:
    r is the time for which the training thread was blocked in the passes that need not share. At worst it is as much as the tenth of the
    passes waits that waits least: what is waited for other ranks may have to be waited for at the last pass as well. At best the passes
    need not wait for the cores either that the backend's threads use. B is what the loader's workers need per step.
When it is wrong:
    A backward may be blocked by something else. Of models that are sharded (FSDP), of several in one process, of several optimizers, and
    of losses that pass through one forward's graph in turns nothing is said, nor of passes whose gradients are set to None before the
    update takes others; such as are filled with zeros count as added. Without sharing each rank keeps whole gradients until the last
    pass: sharded ones then need more memory, these do not.
What to try:
    no_sync around forward and backward of all micro-batches but the last.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.sharing.gradient_syncs import GradientSyncs
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "sync-every-backward"
STAGE = "gradient_sharing"
# Of two passes one need not share.
SEVERAL = 2
ASSUMES = "only the last backward pass of a step shared its gradients"

NOT_KNOWN = Wording("syncs-not-known", "which backward passes share their gradients with the {ranks:.0f} ranks is not known")


def judge(m: Measurements) -> Answer:
    """Whether passes before the last one of a step wait for other ranks."""
    if m.sharing.ranks < SEVERAL:
        return None
    syncs = m.sharing.syncs
    if syncs is None:
        return NotJudged(rule=NAME, reason=NOT_KNOWN(ranks=m.sharing.ranks), advisory=True)
    if syncs.synced < SEVERAL:
        return None
    if not m.sharing.seen:
        return advice(NAME, STAGE, _title(syncs), _rows(m, syncs), ASSUMES, (_fix(m),))
    share, _, high = share_interval(m, syncs.early_ns)
    if share < CLAIM:
        return None
    return _judged(m, syncs, share, high)


def _judged(m: Measurements, syncs: GradientSyncs, share: float, high: float) -> Judged:
    counterfactual = _counterfactual(m, syncs)
    finding = Finding(
        rule=NAME,
        stage=STAGE,
        title=f"{_title(syncs)}: those before the last take {format_share(share)} of the time",
        share=share,
        share_low=share_interval(m, syncs.exchange_ns)[1],
        share_high=high,
        claims=m.ledger.parts_of(STAGE, PartKind.RANK_WAIT) or m.ledger.parts_of(STAGE),
        evidence=(*_rows(m, syncs), saved_by(m, counterfactual)),
        gain=predict(m, counterfactual),
        fixes=(_fix(m),),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _title(syncs: GradientSyncs) -> str:
    return f"{syncs.synced:.0f} of {syncs.backwards:.0f} backward passes of a step share gradients, where one would do"


def _rows(m: Measurements, syncs: GradientSyncs) -> tuple[Evidence, ...]:
    return (
        Evidence(name="backward passes", value=syncs.backwards, unit="per step"),
        Evidence(name="that share gradients", value=syncs.synced, unit="per step", threshold=SEVERAL),
        Evidence(name="ranks", value=m.sharing.ranks, unit="ranks"),
        Evidence(name="blocked in those before the last", value=float(syncs.early_ns.mean()) / 1e6, unit="ms per step"),
        Evidence(name="of that at least the exchange", value=float(syncs.exchange_ns.mean()) / 1e6, unit="ms per step"),
    )


def _fix(m: Measurements) -> Fix:
    # The same gradients, but for the order in which they are added.
    return Fix(text=m.training.words.advise(Remedy.SHARE_ONCE))


def _counterfactual(m: Measurements, syncs: GradientSyncs) -> Counterfactual:
    both = syncs.early_ns + syncs.queued_ns
    return Counterfactual(
        assumes=ASSUMES,
        expected=Case(removed_ns=syncs.early_ns, concurrent_ns=concurrent_producers_ns(m)),
        pessimistic=Case(removed_ns=syncs.exchange_ns, concurrent_ns=PESSIMISTIC_BESIDE * concurrent_producers_ns(m)),
        optimistic=Case(removed_ns=both, concurrent_ns=concurrent_producers_ns(m), delay_share=share_queued(syncs.queued_ns, both)),
    )


RULE = Rule(
    name=NAME,
    stages=("gradient_sharing",),
    topics=("compute", "input", "ledger", "machine", "sharing", "steps", "training"),
    judge=judge,
)
