"""Data come from storage in small pieces, each of which is waited for.

What it sees:
    At least 5 % of the window is spent in waits for batches whose making was blocked while bytes came from storage, in read calls that
    return fewer than 32 KiB on average, at least eight of them per sample.
Why it costs:
    Every piece that lies elsewhere is a request of its own. Disks and network file systems answer some hundred of them a second to one who
    waits for each, however few bytes; read ahead by the kernel (128 KiB by default) only helps who reads on in order.
How the gain is predicted:
    Not: how many of the calls went to storage, and how many to what was read ahead, is not known. The gain of having the data in memory
    stands in storage-wait, which leads.
When it is wrong:
    Small reads that follow each other in one file are merged by the kernel and cost a system call each, no more.
What to try:
    Read samples in the order in which they lie in large files (shards, shuffled in a buffer), in pieces of 256 KiB or more.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.input_causes import most_of_making
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE, claims, removable_waits
from slowstep.diagnosis.gain import share_interval, unknown_gain
from slowstep.diagnosis.lever_specs import mock_loader
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.parts import PartKind

NAME = "small-random-reads"
# A quarter of what the kernel reads ahead by default (read_ahead_kb, 128): pieces under it leave most of each request unused.
SMALL_BYTES = 32 * 1024
# A file that is read whole takes two calls, the second of which finds its end; a picture with its label four.
CALLS_PER_SAMPLE = 8


def judge(m: Measurements) -> Answer:
    """Whether storage is read in small pieces while the training waits for it."""
    calls, read_bytes = m.input.facts.read_calls_per_sample, m.input.facts.read_bytes_per_sample
    if calls is None or read_bytes is None or calls < CALLS_PER_SAMPLE or read_bytes >= SMALL_BYTES * calls:
        return None
    share, low, high = share_interval(m, removable_waits(m, PartKind.STORAGE))
    if share < WAIT_SHARE:
        return None
    each = read_bytes / calls
    evidence = (
        Evidence(name="bytes per read call", value=each / 1e3, unit="KB", threshold=SMALL_BYTES / 1e3),
        Evidence(name="read calls", value=calls, unit="per sample", threshold=CALLS_PER_SAMPLE),
        Evidence(name="blocked on storage", value=share, unit="share of window", threshold=WAIT_SHARE),
        *most_of_making(m),
    )
    finding = Finding(
        rule=NAME,
        stage="read",
        title=f"samples are read in {calls:.0f} pieces of {each / 1e3:.1f} KB, and storage is waited for",
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m, PartKind.STORAGE),
        evidence=evidence,
        gain=unknown_gain("the same bytes were read in few large pieces"),
        fixes=(Fix(text="store samples one after the other in large files, and read those in order", bounded_by=mock_loader(m)),),
    )
    return Judged(finding=finding, counterfactual=None)


RULE = Rule(name=NAME, stages=("read",), topics=("input", "ledger", "steps", "trainer"), judge=judge)
