"""The section on the input's stages says what was measured, is valid, and is drawn where the training waits for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from made_measured_traces import made_measured
from made_measurements import measurements
from made_pipelines import node, pipeline, slow_map
from slowstep.document.training import pipeline_section
from slowstep.document.validity import validate
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


def test_a_function_that_does_not_fit_beside_its_stage_is_drawn_whole_below_it(bottleneck):
    bottleneck["pipeline"] = section(slow_map(18.0))
    bottleneck["pipeline"]["stages"][3]["file"] = "a/longer/name/of/a/folder/train.py"
    bottleneck["findings"][0]["rule"] = "slow-pipeline"

    text = "".join(render(bottleneck, width=40, color=False).split())

    assert "load(a/longer/name/of/a/folder/train.py:7)" in text


def test_in_few_cells_the_time_alone_is_drawn(bottleneck):
    assert shown(bottleneck, slow_map(18.0), width=60)[0].split() == ["Map", "load", "(train.py:7)", "18.0"]


@pytest.mark.parametrize(
    ("unread", "batches", "code", "words"),
    [
        ("autotune-off", 0, "autotune-off", "Stages of the input not measured: autotune is off"),
        (None, 0, "few-readings", "Stages of the input not measured: there are too few readings"),
        (None, 4, "few-batches", "Stages of the input not measured: too few batches came while they were read: 4"),
        ("too-slow", 4, "too-slow", "Stages of the input not measured: reading what they count took too long"),
        ("{else}", 0, "{else}", "Stages of the input not measured: {else}"),
    ],
)
def test_why_nothing_was_counted_is_said(bottleneck, unread, batches, code, words):
    nothing = replace(pipeline([node(1, "Root")], batches=batches), unread=unread)

    assert shown(bottleneck, nothing) == []

    assert section(nothing)["unread"] == code
    assert words in _page(bottleneck)


def test_stages_that_were_read_no_more_from_some_time_on_are_drawn_with_why(bottleneck):
    assert len(shown(bottleneck, replace(slow_map(18.0), unread="too-slow"))) == 1

    assert "Not measured after a time: reading what they count took too long" in _page(bottleneck)
    assert "Not measured after a time" not in _page(bottleneck | {"pipeline": section(slow_map(18.0))})


def test_what_is_not_waited_for_is_not_drawn_and_said_to_be_left_out(bottleneck):
    shown(bottleneck, slow_map(18.0), rule="serial-loader")
    left_out = [line for line in render(bottleneck, width=80, color=False).splitlines() if line.startswith("Not shown")]
    shown(bottleneck, slow_map(18.0))

    assert "the stages of the input" in left_out[0]
    assert "the stages of the input" not in _page(bottleneck).partition("Not shown")[2]


@pytest.mark.parametrize(("ms", "words"), [(0.009, "<0.01"), (0.014, "0.01"), (0.5, "0.50"), (12.0, "12.0")])
def test_the_smallest_times_are_drawn_as_less_than_the_least(bottleneck, ms, words):
    (line,) = shown(bottleneck, slow_map(ms), width=60)

    assert line.split()[-1] == words


def test_calls_are_drawn_of_what_does_more_than_next_to_nothing_and_makes_nothing_ahead(bottleneck):
    (busy,) = shown(bottleneck, slow_map(0.11))
    (idle,) = shown(bottleneck, slow_map(0.09))

    assert busy.split()[-3:] == ["0.01", "of", "1"]
    assert idle.split()[-1] == "0.09"


def _page(report: dict[str, Any]) -> str:
    return " ".join(render(report, width=80, color=False).split())
