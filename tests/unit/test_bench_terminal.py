"""How the report of `slowstep bench` looks: one screen at 80 columns, whatever is missing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from slowstep.cli.bench import kept
from slowstep.document.validity import faults
from slowstep.report.bench_terminal import WORDS
from slowstep.report.json import write
from slowstep.report.terminal import render, show

REPORTS = Path(__file__).parents[1] / "data" / "reports"
NAMES = ["bench-data", "bench-compute", "bench-partial"]
# Lines of a terminal that nobody has made smaller.
SCREEN = 45


def load(name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((REPORTS / f"{name}.json").read_text(encoding="utf-8"))
    return report


@pytest.mark.parametrize("name", NAMES)
def test_a_report_looks_as_it_did(name, looked_at):
    report = load(name)
    text = render(report, width=80, color=False)

    assert faults(report) == []
    assert text == looked_at(REPORTS / f"{name}.80.txt", text)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_fits(name, width):
    lines = render(load(name), width=width, color=False).splitlines()

    *rest, command = lines
    assert max(cell_len(line) for line in rest) <= width
    assert "slowstep" in command
    assert width < 80 or len(lines) <= SCREEN


@pytest.mark.parametrize("name", NAMES)
def test_plain_ascii_is_enough_for_it(name):
    assert render(load(name), width=80, color=False, unicode=False).isascii()


def test_colours_change_no_text():
    import re

    report = load("bench-data")
    colored = render(report, width=80, color=True)

    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(report, width=80, color=False)


def test_it_is_shown_as_the_stream_can_take_it(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    stream = io.StringIO()

    show(load("bench-data"), stream)

    assert max(len(line) for line in stream.getvalue().splitlines()[:-1]) <= 60


def test_control_characters_of_a_command_reach_no_terminal():
    report = load("bench-data")
    report["run"]["next_command"] = "slowstep run '\x1b[31mtrain.py'"

    assert "\x1b" not in render(report, width=80, color=False)


def text_of(report: dict[str, Any]) -> str:
    """All words of it, whatever the lines."""
    assert faults(report) == []
    return " ".join(render(report, width=120, color=False).split())


def test_what_is_read_and_received_stands_beside_what_batches_hold():
    report = load("bench-data")
    figure = {"value": 1100.0, "low": 950.0, "high": 1200.0}
    report["bench"]["loader"] |= {"storage_mb_per_s": figure, "received_mb_per_s": figure}

    text = text_of(report)

    assert "12.3 (11.9-12.8) MB/s of batches" in text
    assert "reads 6.45 (6.31-6.62) MB/s by read calls, 1,100 (950-1,200) MB/s from storage" in text
    assert "receives 1,100 (950-1,200) MB/s over the network, with whatever else runs here" in text


def test_a_loader_that_reads_next_to_nothing_is_not_said_to_read():
    report = load("bench-data")
    report["bench"]["loader"]["read_mb_per_s"] = {"value": 0.1, "low": 0.1, "high": 0.1}

    assert "by read calls" not in text_of(report)


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((100.0, 102.0, 103.0, 104.0), "* current; no workers are needed: more workers add under 5 %"),
        ((100.0, 97.0, 98.0, 90.0), "* current; no workers are needed: more workers add nothing"),
        ((39_279.0, 358.0, 369.0, 238.0), "* current; no workers are needed: more workers are slower"),
        ((100.0, 97.0, 98.0, 115.0), "* current; workers added 15 %, which may be chance"),
    ],
)
def test_what_workers_beyond_the_bend_do_is_said_as_it_is(rates, said):
    report = load("bench-data")
    for point, rate in zip(report["bench"]["sweep"]["points"], rates, strict=True):
        point["samples_per_s"] = {"value": rate, "low": rate, "high": rate}
    report["bench"]["sweep"]["bend"] = 0

    assert said in text_of(report)


@pytest.mark.parametrize(
    ("low", "high", "said"), [(None, 733.0, "(up to 733)"), (620.0, None, "(620 or more)"), (None, None, "(no interval)")]
)
def test_an_end_that_few_batches_do_not_tell_is_not_said(low: float | None, high: float | None, said: str) -> None:
    report = load("bench-data")
    figure = {"value": 686.0, "low": low, "high": high}
    report["bench"]["sweep"]["points"][-1]["samples_per_s"] = report["bench"]["loader"]["samples_per_s"] = figure

    text = text_of(report)

    assert f"4 686 {said}" in text
    assert "an interval that lacks an end is of too few batches to know it" in text
    assert f"Loader alone 686 {said} samples/s, from few batches" in text


def test_a_training_that_was_not_measured_has_a_reason_once():
    report = load("bench-compute")
    report["bench"]["whole"] = None
    report["bench"]["compute"] |= {"samples_per_s": None, "as_is_samples_per_s": None, "reason": "too few steps"}

    assert "The training not measured (too few steps)" in text_of(report)
    assert "its compute on cached batches not measured, after" in text_of(report)
    report["bench"]["compute"]["reason"] = None
    assert "The training not measured Why next" in text_of(report)


@pytest.mark.parametrize(("measured", "said"), [(True, "Partial: it is gone"), (False, "Not measured: it is gone")])
def test_what_was_measured_until_it_ended_is_a_part(measured, said):
    report = load("bench-data")
    report["bench"]["reason"] = "it is gone"
    if not measured:
        report["bench"]["loader"] = report["bench"]["compute"] = report["bench"]["whole"] = None

    assert said in text_of(report)
    assert ("its loader measured alone, in" in text_of(report)) is measured


def test_a_reason_for_everything_is_said_once():
    report = load("bench-data")
    report["bench"]["reason"] = report["bench"]["stages_reason"] = "the loader cannot be measured: it is gone"

    assert text_of(report).count("it is gone") == 1


def test_every_word_for_what_binds_a_loader_is_explained():
    docs = (Path(__file__).parents[2] / "docs" / "bench.md").read_text(encoding="utf-8")

    assert [word for word in WORDS.values() if f"| {word} |" not in docs] == []


def test_an_earlier_report_is_replaced_and_another_file_is_not(tmp_path):
    target = tmp_path / "bench.json"
    write(load("bench-data"), target)
    write(load("bench-compute"), target)

    assert json.loads(target.read_text())["bench"]["half"] == "compute"


def test_a_report_is_kept_in_its_recording_and_says_where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = load("bench-data")
    (tmp_path / "run").mkdir()
    report["run"]["recording"] = str(tmp_path / "run")

    assert kept(lambda names_place: report) == report

    assert json.loads((tmp_path / "run" / "report.json").read_text()) == report
    assert render(report, width=80, color=False).splitlines()[-1] == "Saved           run"


def test_of_a_report_that_could_not_be_kept_no_place_is_named(tmp_path):
    named, unnamed = load("bench-data"), load("bench-data")
    named["run"]["recording"] = str(tmp_path / "removed")

    assert kept(lambda names_place: named if names_place else unnamed) == unnamed
    assert "Saved" not in render(unnamed, width=80, color=False)
