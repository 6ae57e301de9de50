from __future__ import annotations

import os
from pathlib import Path

import pytest

from made_recordings import Training, make_recording
from slowstep.errors import UnreadableInput
from slowstep.reason_words import sentence
from slowstep.sources._source import PLAIN
from slowstep.workflow.traces.find import find, sources

TRACE = '{"traceEvents": []}'


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


@pytest.mark.parametrize("given", ["slowstep_runs", "."])
def test_a_folder_of_recordings_stands_for_the_last_of_them(tmp_path, given):
    runs = tmp_path / "slowstep_runs"
    for name in ("20261120-100000-train", "20261120-110000-train"):
        recording = make_recording(runs / name, Training(steps=3))
        (recording / "capture.json").write_text(TRACE)

    found, _ = find([tmp_path / given])

    assert [each.path.name for each in found] == ["20261120-110000-train"]


def test_the_folder_above_a_single_recording_stands_for_it(tmp_path):
    recording = make_recording(tmp_path / "slowstep_runs" / "20261120-100000-train", Training(steps=3))
    # A capture belongs to its recording, and an empty file in it is missed by nobody.
    (recording / "capture.json").write_text(TRACE)
    (recording / "empty.json").touch()

    found, skipped = find([tmp_path / "slowstep_runs"])

    assert ([each.path for each in found], skipped) == ([recording], [])


def test_a_trace_beside_a_single_recording_is_what_was_meant(tmp_path):
    make_recording(tmp_path / "20261120-100000-train", Training(steps=3))
    (tmp_path / "trace.json").write_text(TRACE)

    assert [each.path.name for each in find([tmp_path])[0]] == ["trace.json"]


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
    (tmp_path / "trace.json").write_text(TRACE)
    (tmp_path / "latest").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")

    found, skipped = find([tmp_path])

    assert [each.path.name for each in found] == ["trace.json"]
    assert [(each.path.name, each.reason) for each in skipped] == [("latest", None), ("pipe", None)]


def test_a_folder_of_links_to_nothing_holds_no_recording(tmp_path):
    (tmp_path / "latest").symlink_to(tmp_path / "gone")

    with pytest.raises(UnreadableInput, match="holds no recording"):
        find([tmp_path])


def forbid(monkeypatch, name: str) -> None:
    """Whoever the tests run as, a file or folder of this name must not be opened by them."""

    def guarded(original):
        def opened(path, *args, **kwargs):
            if Path(path).name == name:
                raise PermissionError(13, "Permission denied", str(path))
            return original(path, *args, **kwargs)

        return opened

    monkeypatch.setattr(Path, "open", guarded(Path.open))
    monkeypatch.setattr(os, "scandir", guarded(os.scandir))


def skipped_at(*paths) -> dict[str, str | None]:
    return {each.path.name: each.reason and sentence(each.reason) for each in find(paths)[1]}


@pytest.mark.parametrize("closed", ["rank1.json", "rank1"])
def test_what_must_not_be_opened_in_a_folder_is_said_with_the_reason(tmp_path, monkeypatch, closed):
    (tmp_path / "rank0.json").write_text(TRACE)
    if closed.endswith(".json"):
        (tmp_path / closed).write_text(TRACE)
    else:
        (tmp_path / closed).mkdir()
    forbid(monkeypatch, closed)

    assert skipped_at(tmp_path) == {closed: "cannot be read: Permission denied"}


def test_a_folder_in_which_nothing_may_be_opened_says_so(tmp_path, monkeypatch):
    (tmp_path / "rank0.json").write_text(TRACE)
    forbid(monkeypatch, "rank0.json")

    with pytest.raises(UnreadableInput, match=r"holds no recording.*rank0\.json cannot be read: Permission denied"):
        find([tmp_path])


def test_a_path_that_must_not_be_looked_at_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "trace.json"
    path.write_text(TRACE)
    forbid(monkeypatch, "trace.json")
    with pytest.raises(UnreadableInput, match="cannot be read: Permission denied"):
        find([path])

    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UnreadableInput, match="cannot be read"):
        find([tmp_path / "loop"])


def test_an_empty_file_is_missed_only_where_its_name_is_that_of_a_trace(tmp_path):
    (tmp_path / "rank0.json").write_text(TRACE)
    (tmp_path / "rank1.json").touch()
    (tmp_path / "rank2.json.gz").write_bytes(b"\x1f\x8b\x08\x00")
    # No method of compression has this number.
    (tmp_path / "rank3.json.gz").write_bytes(b"\x1f\x8b\x09\x00" + bytes(40))
    (tmp_path / "done").touch()

    said = skipped_at(tmp_path)

    assert said.pop("done") is None
    assert said == {
        "rank1.json": "is empty",
        "rank2.json.gz": "unpacks to nothing: it is empty, or was cut off",
        "rank3.json.gz": "is a gzip file whose beginning is damaged, so that nothing of it can be unpacked: copy it again",
    }


def test_of_what_was_asked_for_nothing_is_left_out_in_silence(tmp_path):
    (tmp_path / "rank0.json").write_text(TRACE)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "logs").mkdir()

    said = skipped_at(tmp_path / "rank0.json", tmp_path / "notes.txt", tmp_path / "logs")

    assert said == {"notes.txt": "is in no format that this version reads", "logs": "is a folder without a trace"}
