"""With little memory allowed, the columns go through files, and the tables are the same."""

from __future__ import annotations

import gzip
import itertools
import json
import tempfile
from pathlib import Path

import pytest

from few import few
from kineto_files import CASES, NAMES, case, raw, read, same
from slowstep.sources import kineto
from slowstep.sources._kineto.store import Grown
from slowstep.sources._source import HowRead


@pytest.mark.parametrize("path", few(CASES[::-1], every=10, is_sweep=True), ids=NAMES[::-1])
def test_spilled_columns_give_equal_tables(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spilled = []
    spill = Grown.spill

    def counted(self: Grown, folder: Path) -> None:
        spilled.append(folder)
        spill(self, folder)

    monkeypatch.setattr(Grown, "spill", counted)
    little = read(path, HowRead(memory_bytes=2_000))
    assert spilled
    assert all(folder.parent == tmp_path for folder in spilled)
    assert list(tmp_path.iterdir()) == []
    assert same(little, read(path))


def test_the_folder_is_removed_where_reading_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(kineto, "finished_tables", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        read(case("h100"), HowRead(memory_bytes=2_000))
    assert list(tmp_path.iterdir()) == []


NIGHTLY = pytest.mark.nightly
# The hardest, one of lines, and one of few cuts; all others at night.
CUTS = {("cpu_only", True, 61), ("cpu_only", False, 61), ("mi250", True, 5000)}


@pytest.mark.parametrize(
    ("name", "minified", "chunk_bytes"),
    [
        pytest.param(*cut, marks=[] if cut in CUTS else [NIGHTLY])
        for cut in itertools.product(("mi250", "cpu_only", "a100_no_steps"), (False, True), (61, 1000, 5000))
    ],
)
def test_where_the_file_is_cut_into_chunks_does_not_matter(
    name: str, minified: bool, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = gzip.decompress(case(name).read_bytes())
    # The hardest: events of one line, cut in names, numbers and nested lists.
    text = json.dumps(json.loads(text), separators=(",", ":")).encode() if minified else text
    path = raw(tmp_path, text)
    whole = read(path)
    monkeypatch.setattr(kineto, "CHUNK_BYTES", chunk_bytes)
    assert same(read(path), whole)
    assert same(whole, read(case(name)))
