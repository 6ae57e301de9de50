"""What every source has."""

from __future__ import annotations

import importlib
import inspect
import re
import tarfile
from pathlib import Path

import pytest

from slowstep import sources as package
from slowstep.errors import UnreadableInput
from slowstep.timeline.coverage import KINDS, CoverageLevel
from slowstep.timeline.trace_tables import NOT_PYTHON
from slowstep.workflow.traces.find import find, sources

FILES = sorted(path.stem for path in Path(package.__path__[0]).glob("[!_]*.py"))


def test_every_file_is_a_source():
    assert sorted(sources()) == FILES
    assert FILES


@pytest.mark.parametrize("name", FILES)
def test_a_source_begins_with_a_sentence_on_what_it_reads(name):
    first = inspect.cleandoc(importlib.import_module(f"slowstep.sources.{name}").__doc__ or "").partition("\n\n")[0]

    assert re.match(r"Reads .*\.", first)


@pytest.mark.parametrize("name", FILES)
def test_a_source_has_words_for_what_it_reads_and_endings_of_files(name):
    source = sources()[name]

    assert re.fullmatch(r"\S.*[^.]", source.reads)
    assert all(re.fullmatch(r"(\.[a-z]+)+", ending) for ending in source.endings)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x00" * 64, b"step,loss\n1,0.5\n"])
def test_a_source_knows_no_file_of_another_kind(tmp_path, name, content):
    (tmp_path / "data.bin").write_bytes(content)

    assert not sources()[name].sniff(content, tmp_path / "data.bin")
    assert not sources()[name].processes(tmp_path / "data.bin")


def test_what_no_source_knows_is_told_all_that_they_read(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"PK\x03\x04")

    with pytest.raises(UnreadableInput) as refused:
        find([tmp_path / "data.bin"])

    assert all(source.reads in str(refused.value) for source in sources().values())


DATA = Path(__file__).parents[2] / "data"
# Of each source some samples that show together what it states.
SAMPLES = {
    "recording": ["recordings/chatty_logging-problem.tar.xz"],
    "kineto": ["kineto/h100_inference", "kineto/mi250_toy_step"],
    "nsys": ["nsys/h100_two_processes"],
    "xplane": ["xplane/jax_steps", "xplane/mi300_jax"],
}
# Where rows of each kind are.
ROWS = {
    "steps": lambda t: t.count("updates") + t.count("marked_steps"),
    "host": lambda t: t.count("spans") + t.rows("host_events", "kind", kinds=NOT_PYTHON).height,
    "functions": lambda t: t.count("stacks") + t.rows("host_events", "kind", kinds=["python"]).height,
    "batches": lambda t: t.count("fetches"),
    "device": lambda t: t.count("device_events") + t.table("stacks")["device_idle"].is_not_null().sum(),
    "dispatches": lambda t: t.table("host_events")["correlation"].is_not_null().sum(),
    "allocations": lambda t: t.count("allocations"),
    "machine": lambda t: t.count("readings"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_source_sees_what_it_states(name, tmp_path):
    source = sources()[name]
    read = [source.read(_unpacked(DATA / sample, tmp_path, source)) for sample in SAMPLES[name]]
    stated = {kind for kind in KINDS if any(timeline.level(kind) is not CoverageLevel.NONE for timeline in read)}

    assert source.coverage.keys() == KINDS.keys() == ROWS.keys()
    for timeline in read:
        assert timeline.coverage.keys() == KINDS.keys()
        assert {kind for kind, count in ROWS.items() if count(timeline)} == {
            kind for kind in KINDS if timeline.level(kind) is not CoverageLevel.NONE
        }
    assert {kind for kind, most in source.coverage.items() if most.known is not CoverageLevel.NONE} - stated <= NOT_THERE.get(name, set())
    assert all(timeline.level(kind) in (CoverageLevel.NONE, source.coverage[kind].known) for timeline in read for kind in KINDS)


# The stored export marks no steps; in no stored recording was a device asked.
NOT_THERE = {"nsys": {"steps"}, "recording": {"device"}}


def _unpacked(sample, tmp_path, source):
    if sample.is_dir():
        return next(path for path in sorted(sample.rglob("*")) if path.is_file() and path.name.endswith(source.endings))
    folder = tmp_path / "recording"
    with tarfile.open(sample) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder
