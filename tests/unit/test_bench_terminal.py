"""How the report of `slowstep bench` looks: one screen at 80 columns, whatever is missing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from slowstep.report.bench_document import faults
from slowstep.report.bench_terminal import render, show
from slowstep.report.json import write

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
    report["next"]["command"] = "slowstep run '\x1b[31mtrain.py'"

    assert "\x1b" not in render(report, width=80, color=False)


def test_an_earlier_report_is_replaced_and_another_file_is_not(tmp_path):
    target = tmp_path / "bench.json"
    write(load("bench-data"), target)
    write(load("bench-compute"), target)

    assert json.loads(target.read_text())["bench"] == "compute"
