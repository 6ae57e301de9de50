"""Every sample opens many files, or opens a container file again.

What it sees:
    The training waits for input at least 5 % of the window, and in the batches whose built-in calls were timed either at least 8 files are
    opened per sample (more than a picture with its label and mask) and opening and reading them holds 20 % of the making, or a container
    of many samples (zip, tar, HDF5, Parquet, SQLite, LMDB) is opened by nine samples of ten and opening it holds 20 %.
Why it costs:
    Opening a file is a walk through folders, an inode and a handful of system calls, however few bytes follow: some 20 us in Python where
    everything is cached, milliseconds on a network file system. A container's table of contents is read and parsed again each time; a
    tar file has none: asked for a member by its name, all its headers are walked.
How the gain is predicted:
    r is the wait for batches; B is what making batches takes without all opens of a sample but one. At worst only the built-in calls on
    files are spared, at best all of the function around them, expected the middle. A container's opening is spared wholly.
When it is wrong:
    Files that are read in parts on purpose. One container per sample is opened for each and cannot stay open: pack several into one then.
    A container is known by the library that opens it: whether it is the same file each time was not recorded.
What to try:
    One file per sample (np.save, one archive per shard read in order); for a container, open it once per worker, at the first use.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.input_causes import (
    CAUSE_SHARE,
    EVERY_SAMPLE,
    FILES_PER_SAMPLE,
    FileCost,
    Spared,
    file_cost,
    place,
    sparing,
)
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE, InputSide, claims, find_side, wait_stage
from slowstep.diagnosis.gain import Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import mock_loader
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.reasons import Reason
from slowstep.units import format_share

NAME = "reopened-files"
# Of a container's opening, at worst: the first use of what was read at opening is paid for later.
CONTAINER_PESSIMISTIC = 0.8


def judge(m: Measurements) -> Answer:
    """Whether opening files is what batches wait for."""
    cost, side = file_cost(m), find_side(m)
    if cost is None or isinstance(side, Reason):
        return None
    share, low, high = share_interval(m, side.removable_ns)
    if share < WAIT_SHARE:
        return None
    counterfactual = _counterfactual(m, side, cost)
    finding = Finding(
        rule=NAME,
        stage=wait_stage(m),
        title=_title(m, cost),
        opens_with_name=m.input.facts.around(cost.share) is not None,
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m),
        evidence=_evidence(m, cost, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, cost),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, cost: FileCost, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    around = m.input.facts.around(cost.share)
    where = None if around is None else place(m, around)
    opened = Evidence(
        name="files opened",
        value=cost.opens_per_sample,
        unit="per sample",
        threshold=EVERY_SAMPLE if cost.container else FILES_PER_SAMPLE,
        where=where,
    )
    return (
        *(() if around is None else (Evidence(name="function", value=around.name, unit="", where=where),)),
        opened,
        Evidence(name="opening and reading them", value=cost.share, unit="share of making a batch", threshold=CAUSE_SHARE),
        Evidence(name="waiting for batches", value=share, unit="share of window", threshold=WAIT_SHARE),
        saved_by(m, counterfactual),
    )


def _title(m: Measurements, cost: FileCost) -> str:
    around = m.input.facts.around(cost.share)
    who = "every sample" if around is None else f"{around.name} ({place(m, around)})"
    if cost.container is not None:
        return f"{who} opens the container file again for each sample ({cost.container.name}): {format_share(cost.share)} of making a batch"
    return f"{who} opens {cost.opens_per_sample:.0f} files per sample: {format_share(cost.share)} of making a batch"


def _fixes(m: Measurements, cost: FileCost) -> tuple[Fix, ...]:
    if cost.container is not None:
        texts = ("open it once per worker, at the first use, and keep it open", "unpack it before training")
    else:
        texts = ("store each sample in one file", "pack many samples into shards that are read in order")
    return tuple(Fix(text=text, bounded_by=mock_loader(m)) for text in texts)


def _counterfactual(m: Measurements, side: InputSide, cost: FileCost) -> Counterfactual:
    around = m.input.facts.around(cost.share)
    whole = max(cost.share, around.share if around is not None else 0.0)
    if cost.container is not None:
        spared = Spared(expected=cost.share, pessimistic=CONTAINER_PESSIMISTIC * cost.share, optimistic=(cost.share + whole) / 2)
        return sparing(m, side, spared, f"{cost.container.name} ran once per worker, not once per sample")
    left = 1 / max(cost.opens_per_sample, 1.0)
    spared = Spared(expected=(cost.share + whole) / 2 * (1 - left), pessimistic=cost.share * (1 - left), optimistic=whole * (1 - left))
    return sparing(m, side, spared, "each sample were read from one file")


RULE = Rule(name=NAME, stages=("preprocess", "read"), topics=("compute", "input", "ledger", "machine", "steps", "trainer"), judge=judge)
