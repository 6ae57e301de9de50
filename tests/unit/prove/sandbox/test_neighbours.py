"""What lies around a copy of a working folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slowstep.prove.sandbox.copied import link_neighbours, place_of_copy


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """A working folder with something beside it, and beside the folders above it."""
    folder = tmp_path / "a" / "b" / "work"
    folder.mkdir(parents=True)
    for path in (tmp_path / "far", tmp_path / "a" / "near", tmp_path / "a" / "b" / "next"):
        path.write_text(path.name)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "scratch" / "copy"
    folder.mkdir(parents=True)
    return folder


def copied(cwd: Path, root: Path) -> Path:
    target = Path(place_of_copy(str(cwd), str(root)))
    target.mkdir()
    return target


def test_paths_with_dots_lead_from_the_copy_where_they_led(cwd, root):
    target = copied(cwd, root)

    assert link_neighbours(str(cwd), str(root)) == []

    for path in ("../next", "../../near", "../../../far", f"{'../' * len(cwd.parts[1:])}{str(cwd)[1:]}/../next"):
        assert (target / path).read_text() == (cwd / path).read_text()
    # The copy is what the folder's own name leads to.
    assert os.path.samefile(target / ".." / ".." / "b" / "work", target)
    assert not target.is_symlink()


def test_what_is_made_beside_the_copy_is_not_made_beside_the_folder(cwd, root):
    target = copied(cwd, root)
    link_neighbours(str(cwd), str(root))

    (target / ".." / ".." / "new").touch()

    assert not (cwd / ".." / ".." / "new").exists()


def test_a_folder_that_holds_too_much_is_said_and_those_above_it_are_linked(cwd, root, tmp_path):
    for number in range(30):
        (cwd.parent / f"other-{number}").touch()
    target = copied(cwd, root)

    missing = link_neighbours(str(cwd), str(root), most=20)

    assert missing[0] == str(cwd.parent)
    assert sorted(os.listdir(target.parent)) == ["work"]
    assert (target / "../../near").read_text() == "near"


def test_a_folder_that_cannot_be_listed_is_said(cwd, root, monkeypatch):
    # As for users without rights; root may list every folder.
    listed = os.scandir

    def scandir(path: str) -> object:
        if path == str(cwd.parent):
            raise PermissionError(path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    target = copied(cwd, root)

    assert link_neighbours(str(cwd), str(root)) == [str(cwd.parent)]
    assert (target / "../../near").read_text() == "near"


def test_the_machine_s_root_has_no_neighbours(root):
    assert place_of_copy("/", str(root)) == str(root)
    assert link_neighbours("/", str(root)) == []
