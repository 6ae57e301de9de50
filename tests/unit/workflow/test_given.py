"""What `slowstep analyze` makes of words that name no recording and no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from made_recordings import Training, make_recording
from slowstep.cli.commands import obey
from slowstep.errors import BadUsage, NoRecording, UnreadableInput
from slowstep.report.json import write
from slowstep.workflow.compare import compare_runs
from slowstep.workflow.diagnose_recordings import diagnose_recording
from slowstep.workflow.given import what_is_given

REPORTS = Path(__file__).parents[2] / "data" / "reports"


@pytest.fixture
def recording(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_recording(Path("slowstep_runs") / "20261120-100000-train", Training(steps=60))


@pytest.mark.parametrize("words", [(), ("last",), ("LAST",)])
def test_without_a_path_the_last_run_is_meant(recording, words):
    given = what_is_given([Path(word) for word in words])

    assert given.paths == (recording,)
    assert given.document is None


def test_a_file_that_is_called_last_is_no_word(recording):
    Path("last").touch()

    assert what_is_given([Path("last")]).paths == (Path("last"),)


def test_where_nothing_was_recorded_it_is_said_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(NoRecording, match=r"slowstep run train\.py") as refused:
        what_is_given([])
    assert refused.value.exit_code == 2


def test_a_recording_may_be_named_without_its_folder(recording):
    assert what_is_given([Path(recording.name)]).paths == (recording,)


@pytest.mark.parametrize(("name", "command"), [("train.py", "slowstep run train.py"), ("my run.sh", "slowstep run bash 'my run.sh'")])
def test_a_script_is_to_be_recorded_whether_it_exists_or_not(recording, name, command):
    for _ in range(2):
        with pytest.raises(BadUsage, match=command):
            what_is_given([Path(name)])
        Path(name).touch()


@pytest.mark.parametrize(("name", "rank"), [("report.json", None), ("report-rank3.json", 3)])
def test_a_report_stands_for_the_recording_that_it_lies_in(recording, name, rank):
    write(diagnose_recording(recording), recording / name)

    given = what_is_given([recording / name])

    assert (given.paths, given.rank, given.document) == ((recording,), rank, None)


def test_a_report_that_lies_elsewhere_is_shown_as_it_was_written(recording, tmp_path, capsys):
    report = diagnose_recording(recording)
    write(report, tmp_path / "mine.json")

    assert what_is_given([tmp_path / "mine.json"]).document == report
    assert obey(["analyze", "mine.json"]) == 0
    assert report["verdict"]["state"].upper() in capsys.readouterr().out
    with pytest.raises(BadUsage, match="made already"):
        obey(["analyze", "mine.json", "--warmup", "3"])


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": "slowstep/report/1"}',
        '{"schema": "slowstep/report/1", "run": 3, "throughput": null, "ledger": [], "verdict": {}}',
        '{"schema": "slowstep/report/1", ',
        '{"schema": "slowstep/report/99"}',
        '["slowstep/report/1", "slowstep/report/',
    ],
)
def test_a_damaged_report_is_refused_in_words(recording, text):
    Path("mine.json").write_text(text)

    with pytest.raises(UnreadableInput, match=r"mine\.json"):
        obey(["analyze", "mine.json"])


@pytest.mark.parametrize("name", ["", "report.json"])
def test_of_two_recordings_or_reports_the_command_that_compares_them_is_named(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    given = [make_recording(Path(run), Training(steps=40)) / name for run in ("a", "b", "c")]
    for run in given if name else ():
        run.write_text((REPORTS / "bottleneck.json").read_text())

    with pytest.raises(BadUsage) as two:
        obey(["analyze", *map(str, given[:2])])
    with pytest.raises(BadUsage) as three:
        obey(["analyze", *map(str, given)])

    assert str(two.value).endswith(f"alone. To compare the two: slowstep compare {given[0]} {given[1]}")
    assert str(three.value).endswith("alone.")


@pytest.fixture
def benched(recording) -> dict[str, Any]:
    """The report of a loader that was measured alone, kept in its recording."""
    report: dict[str, Any] = json.loads((REPORTS / "bench-data.json").read_text(encoding="utf-8"))
    report["run"]["recording"] = str(recording)
    write(report, recording / "report.json")
    return report


@pytest.mark.parametrize("name", ["", "report.json"])
def test_of_a_training_whose_loader_was_measured_alone_that_is_shown(recording, benched, name, capsys):
    assert what_is_given([recording / name]).document == benched
    assert obey(["analyze", str(recording / name)]) == 0

    said = capsys.readouterr()
    assert "its loader measured alone" in said.out
    assert said.err == ""


def test_the_last_run_may_be_one_of_bench(recording, benched, capsys):
    assert obey(["analyze"]) == 0

    said = capsys.readouterr()
    assert "its loader measured alone" in said.out
    assert str(recording) in said.err


@pytest.mark.parametrize("folder", [".", "slowstep_runs"])
def test_of_a_folder_whose_last_run_is_one_of_bench_that_is_shown_and_not_compared(recording, benched, folder):
    given = what_is_given([Path(folder)])

    assert (given.document, given.paths, given.is_benched) == (benched, (recording,), True)
    with pytest.raises(BadUsage, match="slowstep bench, which stops the training"):
        compare_runs(Path(folder), recording)


def test_an_option_asks_for_the_steps_of_a_recording_of_bench(recording, benched, capsys):
    assert obey(["analyze", str(recording), "--warmup", "3"]) == 0

    said = capsys.readouterr()
    assert "56 of 60" in said.out.replace("\xa0", " ")
    assert f"the steps before slowstep bench stopped the training; what it measured: slowstep analyze {recording}" in said.err


def test_a_damaged_report_in_a_recording_keeps_nobody_from_it(recording):
    (recording / "report.json").write_text('{"schema": "slowstep/report/1", ')

    assert what_is_given([recording]).document is None


def test_what_bench_measured_is_no_run_to_compare(recording, benched):
    with pytest.raises(BadUsage, match="slowstep bench, which stops the training"):
        obey(["compare", str(recording), str(recording)])


def test_a_list_of_runs_names_the_half_that_was_measured(recording, benched, capsys):
    assert obey(["runs"]) == 0

    row = next(line for line in capsys.readouterr().out.splitlines() if recording.name in line)
    assert "bench data" in row
    assert "216" in row


@pytest.mark.parametrize(("name", "why"), [("x" * 300, "File name too long"), ("nope", "does not exist")])
def test_a_path_that_may_not_be_looked_at_or_is_not_there_is_refused(recording, name, why):
    with pytest.raises(UnreadableInput, match=why):
        what_is_given([Path(name)])


def test_which_recording_was_chosen_is_said_beside_the_report_and_not_in_it(recording, capsys):
    assert obey(["analyze", "--json", "-"]) == 0

    said = capsys.readouterr()
    assert json.loads(said.out)["run"]["recording"] == str(recording)
    assert str(recording) in said.err


def test_of_a_recording_that_was_named_nothing_is_said(recording, capsys):
    assert obey(["analyze", str(recording), "--json", "-"]) == 0

    assert capsys.readouterr().err == ""
