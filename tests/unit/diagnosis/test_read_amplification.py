"""What is read many times over for what is used of it is found, and what must be read is not."""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, code_of, finding, named, values
from made_measurements import DATA, fed, measurements, merged
from slowstep.analyses.input.input_facts import InputFunction
from slowstep.analyses.input.stored_reads import StoredRead, StoredReads
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import TimedFunction
from slowstep.diagnosis.engine import diagnose
from slowstep.parts import Part, PartKind

RULE = "read-amplification"
ROW_BYTES = 12_288
# Sixteen samples in a batch of a few megabytes.
SAMPLES, LOOKS = 96, 6


def read(**changes: Any) -> StoredRead:
    """A row of a chunk of 64, for each sample."""
    given: dict[str, Any] = {
        "library": "h5py", "reader": "Dataset.__getitem__", "file": DATA, "function": "Images.__getitem__", "first_line": 20, "line": 23,
        "chunk": (64, 64, 64, 3), "selected": (1, 64, 64, 3), "calls": SAMPLES, "calls_per_sample": 1.0, "inflating": 1.0, "in_looks": 1.0,
        "inflated_bytes": 64.0 * SAMPLES * ROW_BYTES, "used_bytes": float(SAMPLES * ROW_BYTES), "share": 0.9,
    }  # fmt: skip
    return StoredRead(**{**given, **changes})


def table(times: float, **changes: Any) -> StoredRead:
    """A row group for each sample, of so many times the bytes of what 250,000 of them hold."""
    given: dict[str, Any] = {
        "library": "pyarrow", "reader": "ParquetFile.read_row_group", "chunk": (1024,), "selected": None, "used_bytes": None,
        "inflated_bytes": times * 250_000.0 * SAMPLES,
    }  # fmt: skip
    return read(**{**given, **changes})


def looked(*found: StoredRead, looks: int = LOOKS, samples: int | None = SAMPLES) -> dict[str, Any]:
    return {"input": {"stored_reads": StoredReads(looks=looks, samples=samples, found=found)}}


def training(*found: StoredRead, workers: int = 1, cpu_ms: float = 60.5, cores: float = 4.0, **changes: Any) -> Measurements:
    given = merged(fed(workers, cpu_ms=cpu_ms, cores=cores), looked(*found) if found else {})
    return measurements(**merged(given, changes))


@pytest.mark.parametrize(("workers", "cores"), [(0, 2.0), (1, 4.0), (2, 4.0)])
def test_a_chunk_that_is_read_for_a_row_leads_before_workers_that_gain_less(workers: int, cores: float) -> None:
    diagnosis = diagnose(training(read(), workers=workers, cores=cores))

    first = diagnosis.findings[0]
    assert (diagnosis.verdict.state, first.rule, first.stage) == ("bottleneck", RULE, "preprocess")
    assert {"serial-loader", "too-few-workers"} & set(first.also)
    assert first.title == (
        "Images.__getitem__ (data.py:23) has chunks of 64x64x64x3 read for 1x64x64x3: 64 times what is used, 90 % of making a batch"
    )
    shown = values(first)
    assert (shown["function"], shown["read for it"], shown["its share"]) == ("Images.__getitem__", 64.0, 0.9)


def test_what_workers_would_gain_stands_beside_it() -> None:
    (first, *_) = diagnose(training(read(), workers=0, cores=2.0)).findings

    (serial,) = [folded for folded in first.folded if folded.rule == "serial-loader"]
    assert serial.gain.predicted is not None
    assert 1.0 < serial.gain.predicted < (first.gain.predicted or 0.0)


def test_where_workers_gain_more_theirs_leads_and_it_stands_beside() -> None:
    little = read(share=0.25)
    diagnosis = diagnose(training(little, workers=0, cpu_ms=16.5, cores=16.0))

    first = diagnosis.findings[0]
    assert first.rule == "serial-loader"
    (beside,) = [folded for folded in first.folded if folded.rule == RULE]
    assert beside.names == "Images.__getitem__ (data.py:23)"
    assert (beside.gain.predicted or 0.0) > 1.05


def test_the_function_around_it_does_not_lead() -> None:
    around = TimedFunction(name="crop", file=DATA, line=20, share=0.95, path=("__getitem__", "crop"))
    (first, *_) = diagnose(training(read(), workers=2, cores=2.0, fetch_function=around)).findings

    assert first.rule == RULE
    assert "slow-transform" in first.also


def test_the_gain_is_that_of_less_reading() -> None:
    m = training(read(), workers=0)
    found = finding(RULE, m)

    # 19 ms of the training's own, and of 60.5 a tenth and a twentieth of the rest.
    assert found.gain.predicted == pytest.approx((19.02 + 60.5) / (19.02 + 60.5 * (0.1 + 0.9 * 0.05)), rel=0.02)
    # At worst a fifth of the reading is left, at best a 64th.
    assert found.gain.low is not None
    assert found.gain.low < (19.02 + 60.5) / (19.02 + 60.5 * (0.1 + 0.9 * 0.2)) * 1.02
    assert (found.gain.high or 0.0) >= (19.02 + 60.5) / (19.02 + 60.5 * (0.1 + 0.9 / 64)) * 0.98


def test_of_little_too_much_little_is_promised() -> None:
    """Four times what is used is as good as windows at any place get."""
    found = finding(RULE, training(read(inflated_bytes=5.0 * SAMPLES * ROW_BYTES), workers=0))

    spared = 60.5 * 0.9 * (1 - 2 / 5)
    assert found.gain.predicted == pytest.approx((19.02 + 60.5) / (19.02 + 60.5 - spared), rel=0.02)
    assert (found.gain.low or 0.0) < (19.02 + 60.5) / (19.02 + 60.5 - 60.5 * 0.9 * (1 - 4 / 5)) * 1.02


def test_what_changes_the_order_of_the_samples_says_so() -> None:
    fixes = finding(RULE, training(read())).fixes

    assert [fix.changes_numerics for fix in fixes] == [False, True, False]
    assert "(1x64x64x3)" in fixes[0].text
    assert "rdcc_nbytes" in fixes[1].text
    assert all("order" in fix.text for fix in fixes)
    assert {fix.bounded_by for fix in fixes} == {"mock-loader"}


@pytest.mark.parametrize(
    ("found", "what", "fix"),
    [
        (table(40.0), "1,024 rows read for each sample", "row groups"),
        (table(40.0, calls=SAMPLES // 8, calls_per_sample=1 / 8), "1,024 rows read for each batch", "row groups"),
        (read(library="zarr", reader="Array.__getitem__"), "chunks of 64x64x64x3 read for 1x64x64x3", "chunks of the shape"),
    ],
    ids=["table", "table of a batch", "zarr"],
)
def test_each_library_is_told_of_in_its_words(found: StoredRead, what: str, fix: str) -> None:
    result = finding(RULE, training(found))

    assert what in result.title
    assert fix in result.fixes[0].text
    assert "rdcc" not in "".join(each.text for each in result.fixes)


def test_two_lines_that_read_too_much_are_one_finding() -> None:
    image, mask = read(share=0.5), read(share=0.3, line=24, inflated_bytes=8.0 * SAMPLES * ROW_BYTES)
    both, one = (finding(RULE, training(*reads, workers=0)) for reads in ((image, mask), (image,)))

    assert [row.value for row in both.evidence if row.name == "read for it"] == [64.0, 8.0]
    assert values(both)["its share"] == pytest.approx(0.8)
    assert (both.gain.predicted or 0.0) > (one.gain.predicted or 0.0)


HEALTHY: dict[str, Measurements] = {
    "chunks that are read whole": training(read(inflated_bytes=float(SAMPLES * ROW_BYTES), selected=(64, 64, 64, 3))),
    "windows in chunks of their size": training(read(inflated_bytes=3.9 * SAMPLES * ROW_BYTES)),
    "rows in order, of chunks that are kept": training(read(inflating=1 / 64, inflated_bytes=float(SAMPLES * ROW_BYTES))),
    "rows in order by whose few looks every chunk began": training(read(inflating=1 / 4, inflated_bytes=16.0 * SAMPLES * ROW_BYTES)),
    "a few calls": training(read(calls=7)),
    "reading that holds little": training(read(share=0.15)),
    "a training that does not wait": training(read(), cpu_ms=8.5),
    "tables of which a sixteenth is used": training(table(15.9)),
    "a stream of row groups": training(table(40.0, calls=12, calls_per_sample=1 / 8, in_looks=0.5)),
    "row groups in a few batches": training(**looked(table(40.0, calls=12, calls_per_sample=1 / 8), looks=5)),
    "batches of an unknown number of samples": training(**looked(table(40.0, calls_per_sample=None), samples=None)),
}  # fmt: skip


@pytest.mark.parametrize("case", HEALTHY)
def test_what_must_be_read_is_no_fault(case: str) -> None:
    assert answer_of(RULE, HEALTHY[case]) is None


def test_a_picture_that_is_decoded_and_shrunk_is_none_of_its() -> None:
    """No reader of chunks or tables takes part."""
    decode = InputFunction(
        name="method 'decode' of 'ImagingDecoder' objects",
        file=None,
        line=None,
        calls_per_sample=1.0,
        share=0.7,
        caller="load",
        is_users=False,
    )
    m = training(input={"functions": (decode,), "read_bytes_per_sample": 4e6, "sample_bytes": 150_000.0})

    assert answer_of(RULE, m) is None
    assert RULE not in named(m)


@pytest.mark.parametrize(("share", "code"), [(0.5, "reads-not-looked-at"), (0.1, None)])
def test_a_recording_without_looks_is_not_judged_where_a_known_reader_holds_time(share: float, code: str | None) -> None:
    reader = InputFunction(
        name="Dataset.__getitem__", file="/usr/lib/site-packages/h5py/_hl/dataset.py", line=700, calls_per_sample=1.0, share=share,
        caller=None, is_users=False,
    )  # fmt: skip
    m = training(input={"functions": (reader,)})

    assert code_of(RULE, m) == code


def test_reading_that_waits_for_storage_is_in_that_stage() -> None:
    given = merged(fed(1, cpu_ms=5.5, blocked_ms=60.0, storage=True), looked(read()))
    found = finding(RULE, measurements(**given))

    assert found.stage == "read"
    assert Part("read", PartKind.STORAGE) in found.claims
