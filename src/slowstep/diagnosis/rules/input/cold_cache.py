"""Only the first pass over the data read them from storage.

Later ones read them from memory: it will not happen again in this run.

What it sees:
    Two passes over the dataset or more were seen; the first read at least 4 KB per sample from storage, and the later ones less than half
    of that; and making a sample was blocked longer in the first pass than in the fastest that followed, by at least a fifth of what making
    one takes there; and the workers together, or the training process itself, were then slower than the training.
Why it costs:
    What was never read before comes from storage; what the kernel has kept in its page cache comes from memory. A run's first pass is often
    the one, and all others the other.
How the gain is predicted:
    Not at all: later passes are the gain. This is advice on how to read the other figures, which hold both kinds of pass.
When it is wrong:
    A dataset that is larger than memory is evicted again, and later passes read it again: then it is storage-wait's matter. Work that is
    done only once (a cache that the dataset itself fills) makes a first pass slow as well.
What to try:
    Read the files once before training (cat, vmtouch), in another process, while the model is being built; record a longer run.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.evidence.input.input_causes import most_of_a_sample
from slowstep.diagnosis.evidence.input.input_side import COMFORTABLE, find_side
from slowstep.diagnosis.lever_specs import WARM_CACHE, fix_of_its_loader
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence
from slowstep.reasons import Reason
from slowstep.units import format_times

NAME = "cold-cache"
# One page; less is folders and modules that are imported in the first pass (1.9 KB per sample were seen of those).
BYTES_AT_LEAST = 4096.0
LATER_AT_MOST = 0.5
# Passes of one training differ by a few percent: a fifth is beyond that.
SLOWER_BY = 0.2
# Of less than a hundredth of the first pass's time no figure says more than that it is next to nothing.
NEXT_TO_NONE = 100.0
# A pass of which so little was seen is no pass to compare.
PASS_SHARE = 0.5


def judge(m: Measurements) -> Answer:
    """Whether the first pass was served by storage and later ones by memory."""
    passes = m.input.facts.passes
    whole = [p for p in passes[1:] if p.samples >= PASS_SHARE * passes[0].samples]
    if not whole or passes[0].storage_bytes_per_sample is None:
        return None
    first, later = passes[0], min(whole, key=lambda p: p.making_ns_per_sample)
    stored = later.storage_bytes_per_sample or 0.0
    if first.storage_bytes_per_sample is None or first.storage_bytes_per_sample < BYTES_AT_LEAST:
        return None
    ratio = first.making_ns_per_sample / max(later.making_ns_per_sample, 1.0)
    longer_blocked_ns = first.blocked_ns_per_sample - later.blocked_ns_per_sample
    if stored > LATER_AT_MOST * first.storage_bytes_per_sample or longer_blocked_ns < SLOWER_BY * max(later.making_ns_per_sample, 1.0):
        return None
    if not _kept_waiting(m, ratio):
        return None
    evidence = (
        Evidence(name="from storage, first pass", value=first.storage_bytes_per_sample / 1e3, unit="KB per sample"),
        Evidence(name="from storage, later", value=stored / 1e3, unit="KB per sample"),
        Evidence(
            name="longer blocked in first pass",
            value=longer_blocked_ns / 1e6,
            unit="ms per sample",
            threshold=SLOWER_BY * later.making_ns_per_sample / 1e6,
        ),
        Evidence(name="making a sample, first pass", value=first.making_ns_per_sample / 1e6, unit="ms"),
        Evidence(name="making a sample, later", value=later.making_ns_per_sample / 1e6, unit="ms"),
        *most_of_a_sample(m),
    )
    fix = fix_of_its_loader(m, "read the files once before training; judge a run by its later passes", WARM_CACHE)
    return advice(NAME, "read", _title(ratio), evidence, "later passes are read from memory, as they are now", (fix,))


def _title(ratio: float) -> str:
    first = "the first pass over the data came from storage"
    if ratio >= NEXT_TO_NONE:
        return f"{first}; the next ones, from memory, took next to none of its time"
    return f"{first} and took {format_times(ratio)} as long per sample as the next ones, from memory"


def _kept_waiting(m: Measurements, ratio: float) -> bool:
    """Whether producers that take so many times as long make the training wait."""
    side = find_side(m)
    if isinstance(side, Reason):
        return False
    making_ns = ratio * side.wall_ns * (1 - (m.input.facts.queueing_share or 0.0))
    return m.input.demand.workers == 0 or making_ns / m.input.demand.workers >= COMFORTABLE * side.rest_ns


RULE = Rule(name=NAME, stages=("read",), topics=("compute", "input", "ledger", "machine", "steps", "trainer"), judge=judge)
