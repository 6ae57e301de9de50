"""The section on the input's stages says what was measured, is valid, and is drawn where the training waits for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from made_measured_traces import made_measured
from made_measurements import measurements
from made_pipelines import node, pipeline, slow_map
from slowstep.document.pipeline_section import pipeline_section
from slowstep.document.report import validate
from slowstep.report.terminal import render


def section(known: Any) -> Any:
    return pipeline_section(measurements(input={"pipeline": known}))


def shown(report: dict[str, Any], known: Any, *, width: int = 80, rule: str = "slow-pipeline", verbose: bool = False) -> list[str]:
    """The lines on stages of a report with the section, whose first finding is of a rule."""
    report["pipeline"] = section(known)
    report["findings"][0]["rule"] = rule
    validate(report)
    return [line.strip() for line in render(report, width=width, color=False, verbose=verbose).splitlines() if "Map" in line]


def test_without_a_pipeline_and_of_a_trace_there_is_none():
    assert section(None) is None
    assert pipeline_section(made_measured()) is None


def test_each_stage_has_its_time_its_calls_its_buffer_and_its_function():
    found = section(slow_map(18.0))

    assert (found["batches"], found["batch_ms"], found["slowest"], found["unread"]) == (40, 20.0, 3, None)
    assert [(stage["name"], stage["depth"], stage["ready"]) for stage in found["stages"][:2]] == [("Root", 0, None), ("Prefetch", 1, 0.0)]
    slow = found["stages"][3]
    assert (slow["ms"], slow["busy"], slow["at_once"]) == (pytest.approx(18.0), pytest.approx(0.9), 1)
    assert (slow["function"], slow["file"], slow["line"], slow["in_python"]) == ("load", "train.py", 7, True)


def test_it_is_drawn_where_the_training_waits_for_it_or_all_is_asked_for(bottleneck):
    assert shown(bottleneck, slow_map(18.0)) == ["Map load (train.py:7)                          18.0     0.90 of 1"]
    assert shown(bottleneck, slow_map(18.0), rule="serial-loader") == []
    assert len(shown(bottleneck, slow_map(18.0), rule="serial-loader", verbose=True)) == 1


def test_in_few_cells_the_time_alone_is_drawn(bottleneck):
    assert shown(bottleneck, slow_map(18.0), width=60)[0].split() == ["Map", "load", "(train.py:7)", "18.0"]


@pytest.mark.parametrize(("unread", "words"), [("autotune-off", "autotune is off"), (None, "too few readings"), ("else", "else")])
def test_why_nothing_was_counted_is_said(bottleneck, unread, words):
    nothing = replace(pipeline([node(1, "Root")], batches=0), unread=unread)

    shown(bottleneck, nothing)

    assert words in " ".join(render(bottleneck, width=80, color=False).split())
