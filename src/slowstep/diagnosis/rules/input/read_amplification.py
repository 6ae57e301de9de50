"""Each sample has many times as much read or inflated as it uses.

What it sees:
    The training waits for input at least 5 % of the window, and in the batches whose reads were looked at, calls that hold 20 % of the
    making read much more than is used: chunks of an HDF5 data set or a Zarr array with at least 4 times the bytes that are selected of
    them, where at least half of the calls did not find them kept; or row groups of a Parquet file and tables with at least 16 times the
    bytes of the samples, read for nine samples of ten, or in nine of ten batches of six or more. Windows at any place of a picture touch
    two chunks of their own size in each direction, and a picture may be shrunk to a quarter in each: such factors are no fault.
Why it costs:
    A chunk is the least that can be read: whoever takes one row of 64 has 64 read and inflated, and 63 discarded. Again for the next.
How the gain is predicted:
    r is the wait for batches; B is what making batches takes when those calls read twice what is used, and not less than a twentieth of
    their time; four times and a fifth at worst, just what is used at best. What else the making does stays.
When it is wrong:
    A call takes time of its own, however little it reads: with small chunks that is what is left, and worse for many. What the library has
    kept is known of HDF5 alone, by whether the thread has read a file. A table that is computed with as a whole, to a small result, is
    used whole: it is better made once. Of tables it is not known what of them the batch holds, only how much that is.
What to try:
    Store it in chunks of the shape that is read, which leaves the samples and their order as they are; or read it into memory once, where
    it fits. Or shuffle chunks, and samples inside each, and keep the last chunk: then the samples come in another order.
"""

from __future__ import annotations

from slowstep.analyses.input.stored_reads import StoredRead
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.diagnosis.evidence.input.input_causes import CAUSE_SHARE, EVERY_SAMPLE, Spared, sparing
from slowstep.diagnosis.evidence.input.input_side import (
    WAIT_SHARE,
    InputSide,
    claims,
    concurrent_ns,
    crowded,
    find_side,
    wait_stage,
    workers_needed,
)
from slowstep.diagnosis.evidence.input.read_whole import FACTOR, WHOLE_FACTOR, ReadWhole, not_looked_at, read_whole
from slowstep.diagnosis.gain import Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import mock_loader
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.reasons import Reason, Wording
from slowstep.units import format_bytes, format_count, format_share, format_times

NAME = "read-amplification"
# What is still read of what is used, and of the calls' time what is left at least, as expected and at worst.
STILL_READ, STILL_READ_PESSIMISTIC = 2.0, FACTOR
LEFT, LEFT_PESSIMISTIC = 0.05, 0.20

READS_NOT_LOOKED_AT = Wording(
    "reads-not-looked-at", "what {reader} reads beyond what it is asked for was not looked at; record again, for longer"
)


def judge(m: Measurements) -> Answer:
    """Whether batches wait for what is read and not used."""
    side, found, unseen = find_side(m), read_whole(m), not_looked_at(m)
    if isinstance(side, Reason) or not (found or unseen):
        return None
    share, low, high = share_interval(m, side.removable_ns)
    if share < WAIT_SHARE:
        return None
    if not found:
        return NotJudged(rule=NAME, reason=READS_NOT_LOOKED_AT(reader=unseen))
    counterfactual, first = _counterfactual(m, side, found), found[0]
    finding = Finding(
        rule=NAME,
        stage=wait_stage(m),
        title=f"{_named(m, first.read)} has {_what(first.read)}: {format_times(first.factor)} what is used, "
        f"{format_share(_share(found))} of making a batch",
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m),
        evidence=_evidence(m, found, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=tuple(_fixes(m, first.read)),
        names=_named(m, first.read),
        names_cause=_gains_more_than_workers(m, side, counterfactual),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, found: tuple[ReadWhole, ...], share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    first, facts = found[0], m.input.facts
    least = WHOLE_FACTOR if first.read.used_bytes is None else FACTOR
    of_reads = [
        Evidence(name="read for it", value=each.factor, unit="x what is used", threshold=least, where=_what(each.read)) for each in found
    ]
    in_batch = None if facts.sample_bytes is None else f"{format_bytes(facts.sample_bytes)} of it in the batch"
    return (
        Evidence(name="function", value=first.read.function, unit="", where=_where(m, first.read)),
        *of_reads,
        Evidence(name="its share", value=_share(found), unit="share of making a batch", threshold=CAUSE_SHARE, where=_reader(first.read)),
        Evidence(name="read from files", value=facts.read_bytes_per_sample, unit="bytes per sample", where=in_batch),
        Evidence(name="waiting for batches", value=share, unit="share of window", threshold=WAIT_SHARE),
        saved_by(m, counterfactual),
    )


def _share(found: tuple[ReadWhole, ...]) -> float:
    return min(sum(each.read.share for each in found), 1.0)


def _where(m: Measurements, read: StoredRead) -> str:
    return f"{shown(read.file, m.trainer.facts.script)}:{read.line}"


def _named(m: Measurements, read: StoredRead) -> str:
    return f"{read.function} ({_where(m, read)})"


def _reader(read: StoredRead) -> str:
    return f"{read.reader} ({read.library})"


def _lengths(lengths: tuple[int, ...]) -> str:
    return "x".join(map(str, lengths))


def _what(read: StoredRead) -> str:
    """What is read whole, and for what."""
    if read.selected is not None:
        return f"chunks of {_lengths(read.chunk)} read for {_lengths(read.selected)}"
    return f"{format_count(read.chunk[0], 'row')} read for each {'sample' if (read.calls_per_sample or 0.0) >= EVERY_SAMPLE else 'batch'}"


def _fixes(m: Measurements, read: StoredRead) -> list[Fix]:
    bound = mock_loader(m)
    if read.selected is not None:
        kept = " (h5py.File(..., rdcc_nbytes=) no smaller than it)" if read.library == "h5py" else ""
        texts = [f"store it in chunks of the shape that is read ({_lengths(read.selected)}): the samples and their order stay"]
        others = "shuffle the chunks, and the samples inside each, and keep the chunk that is being read"
        in_order = f"{others}{kept}: the samples come in another order"
    else:
        texts = ["write row groups of as many rows as are read at once: the samples and their order stay"]
        in_order = (
            "shuffle the row groups, and the rows inside each, and keep the one that is being read: the samples come in another order"
        )
    texts.append("read it into memory once, where it fits: the samples and their order stay")
    fixes = [Fix(text=text, bounded_by=bound) for text in texts]
    return [fixes[0], Fix(text=in_order, bounded_by=bound, changes_numerics=True), *fixes[1:]]


def _counterfactual(m: Measurements, side: InputSide, found: tuple[ReadWhole, ...]) -> Counterfactual:
    def spared(still_read: float, least: float) -> float:
        return sum(each.read.share * (1 - min(max(still_read / each.factor, least), 1.0)) for each in found)

    shares = Spared(
        expected=spared(STILL_READ, LEFT), pessimistic=spared(STILL_READ_PESSIMISTIC, LEFT_PESSIMISTIC), optimistic=spared(1.0, 0.0)
    )
    return sparing(m, side, shares, f"{_reader(found[0].read)} read no more than twice what is used")


def _gains_more_than_workers(m: Measurements, side: InputSide, counterfactual: Counterfactual) -> bool:
    """Whether it is the first thing to do: where workers would gain more, their finding stands first, and this one beside it."""
    if crowded(m, side) is not None:
        return True
    by_workers = max(side.rest_ns, concurrent_ns(side, workers_needed(side, m.input.demand.workers)))
    after = counterfactual.after(m)
    return max(after.own_ns, after.concurrent_ns) <= by_workers


RULE = Rule(name=NAME, stages=("preprocess", "read"), topics=("compute", "input", "ledger", "machine", "steps", "trainer"), judge=judge)
