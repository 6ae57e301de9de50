"""Mounts as the kernel lists them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slowstep.prove.sandbox.mounts import Mount, is_within, mount_at, parse_mounts, reachable, read_mounts

LINES = r"""27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw
40 27 8:1 / /mnt/my\040disk\134 rw,nosuid shared:1 master:2 - xfs /dev/sdb1 rw
41 27 8:2 / /media/cd ro,relatime - iso9660 /dev/sr0 ro
42 27 8:3 / /data rw,relatime - squashfs /dev/loop0 ro,errors=continue
43 27 0:9 / /dev/shm rw - tmpfs tmpfs rw
44 27 0:9 / /developer rw - tmpfs tmpfs rw
"""


def test_no_lines_are_no_mounts():
    assert parse_mounts("") == []


def test_a_line_is_read_with_all_that_it_leaves_out():
    plain, tagged, spaces, *_ = parse_mounts(LINES)

    assert plain == Mount(number=27, path="/", kind="ext4", read_only=False)
    assert tagged.kind == "proc"
    assert spaces == Mount(number=40, path="/mnt/my disk\\", kind="xfs", read_only=False)


def test_what_cannot_be_changed_is_bound():
    bound = {mount.path: mount.is_bound for mount in parse_mounts(LINES)}

    assert bound == {
        "/": False,
        "/proc": True,
        "/mnt/my disk\\": False,
        "/media/cd": True,
        "/data": True,
        "/dev/shm": True,
        "/developer": False,
    }


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [("/a", "/a", True), ("/a/b", "/a", True), ("/ab", "/a", False), ("/a", "/a/b", False), ("/", "/", True), ("/a", "/", True)],
)
def test_a_path_is_within_its_folders(path, folder, expected):
    assert is_within(path, folder) is expected


def test_each_path_has_one_reachable_mount_and_folders_come_first():
    found = reachable(read_mounts())
    paths = [mount.path for mount in found]

    assert paths[0] == "/"
    assert len(set(paths)) == len(paths)
    assert all(mount_at(mount.path) == mount.number for mount in found)


def test_the_mount_of_a_path_that_is_not_there_is_unknown(tmp_path: Path):
    assert mount_at(str(tmp_path / "gone")) is None
    assert mount_at(os.fspath(tmp_path)) is not None
