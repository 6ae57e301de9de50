"""Tables that do not fit into the memory given to a reading."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slowstep.sources._gathered import GatheredTable


@pytest.fixture
def spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """The folder of each spill of the one reading that a test makes: often the same one, of which nothing is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders: list[Path] = []
    spill = GatheredTable.spill

    def counted(self: GatheredTable, folder: Path) -> None:
        folders.append(folder)
        spill(self, folder)

    monkeypatch.setattr(GatheredTable, "spill", counted)
    yield folders
    assert len(folders) > 5
    assert {folder.parent for folder in folders} == {tmp_path}
    assert len(set(folders)) == 1
    assert list(tmp_path.iterdir()) == []
