from __future__ import annotations

import json as plain
import os

import pytest

from slowstep.errors import UnwritableOutput
from slowstep.report import json

REPORT = {"schema": "slowstep/report/1", "run": {"name": "é\udce9.py"}}


def test_names_that_are_no_unicode_are_written_all_the_same(tmp_path):
    json.write(REPORT, tmp_path / "r.json")

    assert plain.loads((tmp_path / "r.json").read_text(encoding="ascii")) == REPORT


def test_an_earlier_report_is_replaced_and_no_draft_is_left(tmp_path):
    json.write({**REPORT, "run": {}}, tmp_path / "r.json")
    json.write(REPORT, tmp_path / "r.json")

    assert plain.loads((tmp_path / "r.json").read_text()) == REPORT
    assert os.listdir(tmp_path) == ["r.json"]


def test_a_file_that_is_no_report_is_left_alone(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")

    with pytest.raises(UnwritableOutput, match=r"train\.py exists and is no report"):
        json.write(REPORT, tmp_path / "train.py")

    assert (tmp_path / "train.py").read_text() == "import torch\n"


def test_an_empty_file_is_taken(tmp_path):
    (tmp_path / "r.json").touch()

    json.write(REPORT, tmp_path / "r.json")

    assert (tmp_path / "r.json").stat().st_size > 0


def test_a_link_is_followed(tmp_path):
    json.write(REPORT, tmp_path / "real.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")

    json.write({**REPORT, "run": {}}, tmp_path / "link.json")

    assert (tmp_path / "link.json").is_symlink()
    assert plain.loads((tmp_path / "real.json").read_text())["run"] == {}


def test_a_device_is_written_into_and_stays_a_device():
    json.write(REPORT, "/dev/null")

    assert not os.path.isfile("/dev/null")


def test_a_folder_is_no_file_and_the_message_says_what_to_do(tmp_path):
    with pytest.raises(UnwritableOutput, match="Name a file, not a folder"):
        json.write(REPORT, tmp_path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UnwritableOutput, match=r"Make the folder .*missing first"):
        json.write(REPORT, tmp_path / "missing" / "r.json")


def test_a_failure_on_the_way_leaves_the_earlier_report_and_no_draft(tmp_path, monkeypatch):
    json.write(REPORT, tmp_path / "r.json")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(UnwritableOutput, match="Permission denied"):
        json.write({**REPORT, "run": {}}, tmp_path / "r.json")

    assert plain.loads((tmp_path / "r.json").read_text()) == REPORT
    assert os.listdir(tmp_path) == ["r.json"]


def test_a_place_that_can_be_written_to_is_as_it_was_when_it_has_been_checked(tmp_path):
    json.write(REPORT, tmp_path / "r.json")
    (tmp_path / "empty.json").touch()
    (tmp_path / "link.json").symlink_to(tmp_path / "nothing.json")

    for name in ("r.json", "empty.json", "link.json", "new.json"):
        json.check_target(tmp_path / name)
    json.check_target("/dev/null")

    assert plain.loads((tmp_path / "r.json").read_text()) == REPORT
    assert sorted(os.listdir(tmp_path)) == ["empty.json", "link.json", "r.json"]


def test_a_pipe_is_checked_without_a_reader_seeing_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    json.check_target(tmp_path / "pipe")


def test_a_file_that_is_no_report_is_refused_before_there_is_a_report(tmp_path):
    (tmp_path / "results.json").write_text('{"mine": 1}')

    with pytest.raises(UnwritableOutput, match=r"results\.json exists and is no report"):
        json.check_target(tmp_path / "results.json")

    assert (tmp_path / "results.json").read_text() == '{"mine": 1}'


# Nobody makes a file there, root neither.
@pytest.mark.parametrize("place", ["/proc/r.json", "/no/such/folder/r.json"])
def test_a_place_where_no_file_can_be_made_is_refused(place):
    with pytest.raises(UnwritableOutput, match=f"the report cannot be written to {place}: "):
        json.check_target(place)


def test_what_cannot_be_written_has_been_shown(tmp_path):
    (tmp_path / "results.json").write_text("mine")
    shown = []

    with pytest.raises(UnwritableOutput, match="is no report"):
        json.show_and_write(lambda: shown.append(REPORT), REPORT, tmp_path / "results.json")

    assert shown == [REPORT]


def test_what_nobody_reads_on_the_terminal_is_written_all_the_same(tmp_path):
    def gone():
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        json.show_and_write(gone, REPORT, tmp_path / "r.json")

    assert plain.loads((tmp_path / "r.json").read_text()) == REPORT
