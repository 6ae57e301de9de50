"""What making batches reads whole for a small part of it: chunks of an array, row groups of a table."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.input.stored_reads import StoredRead, StoredReads
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.input_causes import CAUSE_SHARE, EVERY_SAMPLE

# Windows at any place of a picture, in chunks as large as they are, touch two in each direction: four times what is used is how it is.
FACTOR = 4.0
# What is read whole by its nature may be used whole: a picture that is shrunk to a quarter in each direction.
WHOLE_FACTOR = 16.0
# HDF5 keeps chunks that were inflated: read in order, rows of a chunk of k have it inflated by one call of k.
INFLATING = 0.5
# By fewer calls it is chance how many of them find what they want kept.
FEWEST_CALLS = 8
# A stream reads a row group for many of its batches: so many in a row that each read one are no chance.
FEWEST_LOOKS = 6

# Functions that read chunks or row groups, by the ends of their files: where these hold time and were not looked at, nothing is known.
READERS = (
    ("h5py/_hl/dataset.py", "Dataset.__getitem__"),
    ("zarr/core/array.py", "Array.__getitem__"),
    ("zarr/core.py", "Array.__getitem__"),
    ("pyarrow/parquet/core.py", "ParquetFile.read"),
    ("pyarrow/parquet/core.py", "read_table"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadWhole:
    """A line whose call reads `factor` times what is used."""

    read: StoredRead
    factor: float


def read_whole(m: Measurements) -> tuple[ReadWhole, ...]:
    """Those that read too much, most time first; none where all of them together hold less of making batches than a cause does."""
    looked = m.input.stored_reads
    if looked is None:
        return ()
    factors = ((read, _factor(m, looked, read)) for read in looked.found)
    found = tuple(ReadWhole(read=read, factor=factor) for read, factor in factors if factor is not None)
    return found if sum(each.read.share for each in found) >= CAUSE_SHARE else ()


def not_looked_at(m: Measurements) -> str | None:
    """The known reader that holds time of making batches in a recording in which none was looked at; None otherwise."""
    if m.input.stored_reads is not None:
        return None
    holding = m.input.facts.named(*(name for _, name in READERS), at_least=CAUSE_SHARE)
    found = (f for f in holding if any((f.file or "").endswith(file) and name in f.name for file, name in READERS))
    return next((f.name for f in found), None)


def _factor(m: Measurements, looked: StoredReads, read: StoredRead) -> float | None:
    """How many times what is used a line reads; None where that is how it is, or not known."""
    if read.calls < FEWEST_CALLS:
        return None
    if read.used_bytes is not None:
        factor = read.inflated_bytes / max(read.used_bytes, 1.0)
        return factor if factor >= FACTOR and read.inflating >= INFLATING else None
    each = m.input.facts.sample_bytes
    is_each_time = (read.calls_per_sample or 0.0) >= EVERY_SAMPLE or (looked.looks >= FEWEST_LOOKS and read.in_looks >= EVERY_SAMPLE)
    if not each or not looked.samples or not is_each_time:
        return None
    factor = read.inflated_bytes / (each * looked.samples)
    return factor if factor >= WHOLE_FACTOR else None
