"""What every source has."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from slowstep import sources as package
from slowstep.errors import UnreadableInput
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
