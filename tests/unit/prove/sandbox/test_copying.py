"""Copies of working folders, and the removal of whatever a script made of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandboxed import looks_of
from slowstep.prove.sandbox import copying
from slowstep.prove.sandbox.copying import Copy, TooLarge
from slowstep.prove.sandbox.removal import remove


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def copy_of(source: Path, **more: object) -> Copy:
    return Copy(source=str(source), target=str(source.parent / "target"), **more)


def relative(folder: Path) -> dict[str, tuple[object, ...]]:
    return {os.path.relpath(path, folder): looks for path, looks in looks_of(folder).items()}


def test_an_empty_folder_is_copied(source):
    copy_of(source).make()

    assert os.listdir(source.parent / "target") == []


def test_contents_modes_times_and_links_are_kept(source):
    (source / "closed").mkdir()
    (source / "closed" / "file").write_text("content")
    (source / "link").symlink_to("closed/file")
    (source / "away").symlink_to("/usr")
    os.chmod(source / "closed" / "file", 0o640)
    os.utime(source / "closed" / "file", ns=(1, 2_000_000_003))
    os.chmod(source / "closed", 0o555)

    copy_of(source).make()

    copied, original = relative(source.parent / "target"), relative(source)
    for link in ("link", "away"):
        assert copied.pop(link)[-1] == original.pop(link)[-1]
    assert copied == original


def test_a_link_into_the_folder_leads_into_the_copy(source):
    (source / "file").write_text("old")
    (source / "inside").symlink_to(source / "file")

    copy_of(source).make()
    (source.parent / "target" / "inside").write_text("new")

    assert (source / "file").read_text() == "old"


@pytest.fixture
def elsewhere(source: Path) -> Path:
    """A folder that lies beside the source, with a link `back` to it."""
    folder = source.parent / "elsewhere"
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "file").write_text("theirs")
    (folder / "inner" / "file").write_text("inner")
    (folder / "back").symlink_to(source)
    return folder


@pytest.mark.parametrize(
    ("place", "link", "expected"),
    [
        ("link", "../elsewhere/file", "{}/elsewhere/file"),
        ("folder/link", "../../elsewhere/file", "{}/elsewhere/file"),
        ("link", "../elsewhere/gone", "{}/elsewhere/gone"),
        ("folder/link", "../../elsewhere", "{}/elsewhere"),
        ("link", "deep/../file", "{}/elsewhere/inner/file"),
        ("folder/link", "../file", "../file"),
        ("link", "./file", "./file"),
        ("link", "gone", "gone"),
        ("folder/link", "../../source/file", "{}/target/file"),
        ("link", "../elsewhere/back/file", "{}/target/file"),
        ("link", "{}/elsewhere/back/file", "{}/target/file"),
        ("link", "{}/source", "{}/target"),
        ("link", "{}/elsewhere/back/..", "{}"),
    ],
)
def test_a_link_leads_where_it_led_but_for_the_folder_itself(source, elsewhere, place, link, expected):
    (source / "folder").mkdir()
    (source / "file").touch()
    (source / "deep").symlink_to(elsewhere / "inner" / "deep")
    (source / place).symlink_to(link.format(source.parent))

    copy_of(source).make()

    assert os.readlink(source.parent / "target" / place) == expected.format(source.parent)


def test_environments_are_linked_and_recordings_left_out(source):
    for name in (".venv", "slowstep_runs"):
        (source / name).mkdir()
    (source / ".venv" / "pyvenv.cfg").touch()
    copy = copy_of(source, left_out=(str(source / "slowstep_runs"),))

    copy.make()

    assert os.listdir(copy.target) == [".venv"]
    assert os.readlink(source.parent / "target" / ".venv") == str(source / ".venv")
    assert copy.linked == [str(source / ".venv")]


def test_what_is_no_file_is_left_out(source):
    os.mkfifo(source / "pipe")

    copy_of(source).make()

    assert os.listdir(source.parent / "target") == []


def test_a_folder_over_the_limit_is_not_copied(source, monkeypatch):
    # As on a file system that shares no blocks.
    monkeypatch.setattr(copying, "_share_blocks", lambda source, target: False)
    (source / "a").write_bytes(bytes(600))
    (source / "b").write_bytes(bytes(600))

    with pytest.raises(TooLarge, match="more than"):
        copy_of(source, limit_bytes=1000).make()
    remove(str(source.parent / "target"))
    copy_of(source, limit_bytes=1200).make()


def test_a_folder_of_too_many_files_is_not_copied(source, monkeypatch):
    monkeypatch.setattr(copying, "MOST_ENTRIES", 3)
    for name in "abcd":
        (source / name).touch()

    with pytest.raises(TooLarge, match="more files"):
        copy_of(source).make()


def test_folders_that_nobody_may_enter_are_removed_and_links_not_followed(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").touch()
    scratch = tmp_path / "scratch"
    (scratch / "closed" / "inner").mkdir(parents=True)
    (scratch / "closed" / "inner" / "file").touch()
    (scratch / "link").symlink_to(theirs)
    for path in (scratch / "closed" / "inner", scratch / "closed", scratch):
        os.chmod(path, 0)
    before = looks_of(theirs)

    assert remove(str(scratch))

    assert not scratch.exists()
    assert looks_of(theirs) == before


def test_what_is_not_there_is_removed(tmp_path):
    assert remove(str(tmp_path / "gone"))
