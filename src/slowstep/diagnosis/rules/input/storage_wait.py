"""Making batches waits for storage, in every pass over the data.

What it sees:
    At least 5 % of the window is spent in waits for batches whose making neither computed nor waited for a core while bytes came from
    storage (the kernel's own count for that process, which leaves the page cache out), and where two passes over the dataset were seen, the
    later ones read at least half as much per sample as the first: it does not end by itself.
Why it costs:
    Storage answers in a tenth of a millisecond (flash) to ten (disks, file systems of a network); a worker that reads one file after the
    other waits for each.
How the gain is predicted:
    r is the wait for batches; B is what making batches takes without being blocked on storage, divided by the workers, not below the CPU
    time of training and of making batches divided by the cores. At worst a fifth of the waiting for storage remains. Where more workers
    would hide the waiting as well, no gain is predicted: their finding leads, because they cost less to try.
When it is wrong:
    A fetch that read a few bytes from storage and was blocked on something else as well is counted wholly. Files mapped into memory are
    read by page faults, which the kernel counts here too, but some file systems (FUSE, NFS with its own cache) count nothing.
What to try:
    Keep the data set in memory or on local flash, read it once before training, or pack it into large files that are read in order.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.input_causes import Spared, more_workers_help, most_of_making, sparing
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE, claims, find_side, removable_waits
from slowstep.diagnosis.gain import Counterfactual, predict, saved_by, share_interval, unknown_gain
from slowstep.diagnosis.lever_specs import WARM_CACHE, fix_of_its_loader, mock_loader
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.parts import PartKind
from slowstep.reasons import Reason
from slowstep.units import format_share

NAME = "storage-wait"
# Later passes that read less than half of the first one's bytes are being served by the page cache more and more: see cold-cache.
LASTING = 0.5
LEFT_PESSIMISTIC = 0.2
ASSUMES = "the data were in memory, and nothing else about making batches changed"


def judge(m: Measurements) -> Answer:
    """Whether storage keeps the training waiting, and goes on to."""
    side = find_side(m)
    if isinstance(side, Reason):
        return None
    blocked = removable_waits(m, PartKind.STORAGE)
    share, low, high = share_interval(m, blocked)
    if share < WAIT_SHARE or not _lasts(m):
        return None
    # Of the making of a batch: as much as of the waits.
    held = float(blocked.sum() / max(removable_waits(m).sum(), 1.0))
    spared = Spared(expected=held, pessimistic=(1 - LEFT_PESSIMISTIC) * held, optimistic=held)
    counterfactual = sparing(m, side, spared, ASSUMES, is_cpu=False)
    hidden = more_workers_help(m, side)
    read_bytes = float(m.input.facts.storage_bytes_per_step.mean())
    finding = Finding(
        rule=NAME,
        stage="read",
        title=f"making batches waits for storage for {format_share(share)} of the time, {read_bytes / 1e6:.1f} MB per step",
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m, PartKind.STORAGE),
        evidence=_evidence(m, read_bytes, share, counterfactual),
        gain=unknown_gain(ASSUMES) if hidden else predict(m, counterfactual),
        fixes=(
            fix_of_its_loader(
                m, "keep the data in memory, or copy them to local flash before training", WARM_CACHE, bounded_by=mock_loader(m)
            ),
            Fix(text="pack the files into larger ones that are read in order", bounded_by=mock_loader(m)),
        ),
    )
    return Judged(finding=finding, counterfactual=None if hidden else counterfactual)


def _evidence(m: Measurements, read_bytes: float, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    return (
        Evidence(name="blocked on storage", value=share, unit="share of window", threshold=WAIT_SHARE),
        Evidence(name="read from storage", value=read_bytes / 1e6, unit="MB per step"),
        Evidence(name="rate", value=read_bytes * 1e3 / float(m.step_ns.mean()), unit="MB/s"),
        *most_of_making(m),
        saved_by(m, counterfactual),
    )


def _lasts(m: Measurements) -> bool:
    known = [p.storage_bytes_per_sample for p in m.input.facts.passes if p.storage_bytes_per_sample is not None]
    return len(known) < 2 or max(known[1:]) >= LASTING * known[0]


RULE = Rule(name=NAME, stages=("read",), topics=("compute", "input", "ledger", "machine", "steps", "trainer"), judge=judge)
