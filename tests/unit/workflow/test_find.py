from __future__ import annotations

import os
from pathlib import Path

import pytest

from made_recordings import Training, make_recording
from slowstep.errors import UnreadableInput
from slowstep.sources._source import PLAIN
from slowstep.workflow.find import find, sources


def load(path):
    found, _ = find([path])
    return found[0].source.read(found[0].path, PLAIN)


def test_a_path_that_does_not_exist_is_told_what_to_give(tmp_path):
    with pytest.raises(UnreadableInput, match=r"does not exist.*slowstep_runs"):
        load(tmp_path / "nothing")


def test_an_empty_folder_holds_no_recording(tmp_path):
    with pytest.raises(UnreadableInput, match="holds no recording"):
        load(tmp_path)


def test_a_folder_of_something_else_holds_no_recording(tmp_path):
    (tmp_path / "weights.pt").write_bytes(b"PK\x03\x04")
    (tmp_path / "log.jsonl").write_text('{"loss": 1}\n')

    with pytest.raises(UnreadableInput, match=r"launcher\.jsonl"):
        load(tmp_path)


def test_the_folder_above_the_recordings_names_the_latest_one(tmp_path):
    runs = tmp_path / "slowstep_runs"
    for name in ("20261120-100000-train", "20261120-110000-train"):
        make_recording(runs / name, Training(steps=3))

    with pytest.raises(UnreadableInput, match=r"slowstep analyze .*20261120-110000-train"):
        load(runs)


@pytest.mark.parametrize(("content", "said"), [(b"", "is empty"), (b"\0\1garbage", "no format that this version reads")])
def test_a_file_that_is_no_recording_says_so(tmp_path, content, said):
    file = tmp_path / "trace"
    file.write_bytes(content)

    with pytest.raises(UnreadableInput, match=said):
        load(file)


def test_a_recording_is_recognised_by_content_whatever_its_folder_is_called(tmp_path):
    folder = make_recording(tmp_path / "copied from elsewhere.txt", Training(steps=3))

    assert load(folder).source == "recording"
    assert "recording" in sources()


def test_a_recording_that_the_launcher_never_wrote_to_is_still_one(tmp_path):
    folder = make_recording(tmp_path, Training(steps=3))
    for file in Path(folder).glob("launcher.*"):
        file.unlink()

    assert load(folder).run.name == tmp_path.name


def test_pipes_and_links_to_nothing_leave_the_traces_beside_them_readable(tmp_path):
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    (tmp_path / "latest").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")

    found, unknown = find([tmp_path])

    assert [each.path.name for each in found] == ["trace.json"]
    assert [path.name for path in unknown] == ["latest", "pipe"]


def test_a_folder_of_links_to_nothing_holds_no_recording(tmp_path):
    (tmp_path / "latest").symlink_to(tmp_path / "gone")

    with pytest.raises(UnreadableInput, match="holds no recording"):
        find([tmp_path])
