from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from slowstep.errors import CommandNotStarted
from slowstep.record.launching import folder as recordings
from slowstep.record.launching.folder import create_folder, holds_nothing, put_back, remove_folder, set_aside
from slowstep.record.writing.format import LATER_STARTS_FOLDER


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_recording_is_private_and_hidden_from_git(work: Path) -> None:
    folder = Path(create_folder(parent=None, stem="train", now_s=0))

    assert folder.parent == work / "slowstep_runs"
    assert folder.name.endswith("-train")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (work / "slowstep_runs" / ".gitignore").read_text() == "*\n"


def test_recordings_of_the_same_second_do_not_meet(work: Path) -> None:
    folders = [create_folder(parent=None, stem="train", now_s=0) for _ in range(3)]

    assert [Path(folder).name.rpartition("train")[2] for folder in folders] == ["", "-2", "-3"]


def test_a_folder_of_the_users_is_not_hidden_as_a_whole(work: Path) -> None:
    (work / "mine").mkdir()

    folder = Path(create_folder(parent="mine", stem="train"))

    assert not (work / "mine" / ".gitignore").exists()
    assert (folder / ".gitignore").read_text() == "*\n"


def test_a_gitignore_of_the_users_is_kept(work: Path) -> None:
    (work / "slowstep_runs").mkdir()
    (work / "slowstep_runs" / ".gitignore").write_text("mine\n")

    create_folder(parent=None, stem="train")

    assert (work / "slowstep_runs" / ".gitignore").read_text() == "mine\n"


def test_a_umask_does_not_lock_the_owner_out(work: Path) -> None:
    before = os.umask(0o777)
    try:
        (work / "runs").mkdir()
        (work / "runs").chmod(0o755)
        folder = create_folder(parent="runs", stem="train")
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


@pytest.mark.parametrize(("stem", "name"), [("a b/c", "a_b_c"), ("..", "run"), ("x" * 300, "x" * 64), ("größe", "größe")])
def test_names_are_fit_for_a_file_system(work: Path, stem: str, name: str) -> None:
    assert Path(create_folder(parent=None, stem=stem)).name.split("-", 2)[2] == name


def test_an_unwritable_place_ends_with_125_and_says_what_to_do(work: Path) -> None:
    (work / "file").touch()

    with pytest.raises(CommandNotStarted, match=r"file.*--out DIR") as caught:
        create_folder(parent="file/runs", stem="train")

    assert caught.value.exit_code == 125


def test_a_recording_that_never_began_leaves_nothing(work: Path) -> None:
    remove_folder(create_folder(parent=None, stem="train"))

    assert os.listdir(work) == []


def test_an_empty_folder_of_the_users_stays_when_a_recording_in_it_never_began(work: Path) -> None:
    (work / "mine").mkdir()

    remove_folder(create_folder(parent="mine", stem="train"))

    assert os.listdir(work) == ["mine"]


def test_other_recordings_stay_when_one_never_began(work: Path) -> None:
    kept = create_folder(parent=None, stem="kept")

    remove_folder(create_folder(parent=None, stem="train"))

    assert os.path.isdir(kept)


@pytest.mark.parametrize(
    ("names", "nothing"),
    [
        ([".gitignore", "launcher.jsonl", "launcher.rec"], True),
        (["launcher.jsonl", "launcher.rec", "report.json"], True),
        (["launcher.jsonl", "100-1.rec"], False),
        (["launcher.jsonl", "100-1.jsonl"], False),
        # A process that outlives the command may still record.
        (["launcher.jsonl", "inject/"], False),
    ],
)
def test_a_recording_holds_nothing_where_no_process_wrote_into_it(work: Path, names: list[str], nothing: bool) -> None:
    for name in names:
        (work / name).mkdir() if name.endswith("/") else (work / name).touch()

    assert holds_nothing(str(work)) is nothing


def test_of_a_folder_that_is_gone_it_is_not_said_that_it_holds_nothing(work: Path) -> None:
    assert holds_nothing(str(work / "gone")) is False


def test_a_folder_of_recordings_that_another_run_takes_away_is_made_again(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, taken = recordings._create_unique, []

    def create_unique(path: str) -> str:
        if not taken:
            taken.append(path)
            os.rmdir(os.path.dirname(path))
        return make(path)

    monkeypatch.setattr(recordings, "_create_unique", create_unique)

    assert Path(create_folder(parent=None, stem="train")).is_dir()
    assert taken


def test_a_recording_begun_while_the_folder_is_taken_away_stays_hidden_from_git(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, unlink = create_folder(parent=None, stem="a"), os.unlink

    def begins_another(path: str) -> None:
        unlink(path)
        (work / "slowstep_runs" / "b").mkdir()

    monkeypatch.setattr(recordings.os, "unlink", begins_another)
    remove_folder(first)

    assert sorted(os.listdir(work / "slowstep_runs")) == [".gitignore", "b"]


def test_a_recording_that_is_put_back_stands_alone_again(tmp_path: Path) -> None:
    (tmp_path / "launcher.jsonl").write_text("first")
    set_aside(str(tmp_path))
    (tmp_path / "launcher.jsonl").write_text("second")
    (tmp_path / "plan.json").write_text("second")
    later = tmp_path / LATER_STARTS_FOLDER / "2"
    later.mkdir(parents=True)
    (later / "launcher.jsonl").write_text("its later start")

    put_back(str(tmp_path))

    assert [path.name for path in tmp_path.rglob("*")] == ["launcher.jsonl"]
    assert (tmp_path / "launcher.jsonl").read_text() == "first"


def test_nothing_is_removed_where_no_recording_was_set_aside(tmp_path: Path) -> None:
    (tmp_path / "set-aside").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "launcher.jsonl").write_text("first")

    put_back(str(tmp_path))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["launcher.jsonl", "scratch"]
