"""The root that an experiment sees, on a machine whose mounts come and go."""

from __future__ import annotations

import os

import pytest

from slowstep.prove.sandbox import root
from slowstep.prove.sandbox.mounts import Mount


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Builds a root over `tmp_path` and what is mounted at a path; nothing is really mounted. Returns what was bound."""
    bound: list[str] = []

    def bind(source: str, target: str) -> None:
        if "socket" in source:
            raise FileNotFoundError(target)
        bound.append(source)

    def build(path: str) -> list[str]:
        mounts = [Mount(number=1, path="/", kind="ext4", read_only=False), Mount(number=2, path=path, kind="ext4", read_only=False)]
        monkeypatch.setattr(root, "read_mounts", lambda: mounts)
        monkeypatch.setattr(root, "reachable", list)
        monkeypatch.setattr(root, "overlay", lambda *_: None)
        monkeypatch.setattr(root, "_socket_paths", list)
        monkeypatch.setattr(root.system, "bind", bind)
        monkeypatch.setattr(root.system, "close_for_writing", lambda _: None)
        monkeypatch.setattr(root, "_SHM", str(tmp_path / "none"))
        root.Root(str(tmp_path / "place"), str(tmp_path / "layers"), "").build()
        return bound

    return build


def test_a_mount_that_is_gone_meanwhile_is_left_out(built, tmp_path):
    assert built(str(tmp_path / "socket")) == []


def test_a_mount_of_what_is_removed_meanwhile_is_left_out(built, tmp_path, monkeypatch):
    # In a sandbox within another: the outer one's mount of a socket stays when its owner removes it, and there is nothing to mount it on.
    path = tmp_path / "socket"
    path.touch()
    looks = os.lstat(path)
    monkeypatch.setattr(os, "lstat", lambda _: os.stat_result((*looks[:3], 0, *looks[4:10])))

    assert built(str(path)) == []


def test_a_mount_that_is_there_and_cannot_be_shown_keeps_anything_from_running(built, tmp_path):
    (tmp_path / "socket").touch()

    with pytest.raises(FileNotFoundError):
        built(str(tmp_path / "socket"))


def test_a_file_that_is_mounted_is_shown(built, tmp_path):
    (tmp_path / "file").touch()

    assert built(str(tmp_path / "file")) == [str(tmp_path / "file")]
