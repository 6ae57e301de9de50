"""What is said of the capture of a few steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from made_measured_traces import made_measured
from slowstep.analyses.events.parts import KERNELS
from slowstep.analyses.measurements import CapturedWindow
from slowstep.analyses.steps.captures import Capture
from slowstep.document.captured import capture_facts, capture_note, find_lost_capture
from slowstep.reason_words import sentence

CAPTURE = Capture(file="capture-3.json", reason=None, first=3, last=5, begin_ns=0, end_ns=1, extra_ns=5e6)
M = made_measured(ledger={KERNELS: 60.0})


def test_a_capture_is_named_with_the_steps_that_it_is_of() -> None:
    window = CapturedWindow(capture=CAPTURE, m=M)

    assert capture_facts(Path("run"), window) == {"file": "run/capture-3.json", "steps": "3-5", "extra_ms": 5.0}
    assert "steps 3-5 were captured by torch.profiler" in capture_note(Path("run"), window, M)
    assert find_lost_capture(window) == []


def test_a_training_that_is_slower_since_a_capture_has_figures_that_are_too_high() -> None:
    lasting = replace(CAPTURE, slowdown=1.5, slowdown_low=1.4)

    [row] = find_lost_capture(CapturedWindow(capture=lasting, m=M))

    assert row.name == "capture-slowed"
    assert "50 % longer since the capture of steps 3-5" in sentence(row.remedy)


def test_of_a_capture_that_was_not_made_or_cannot_be_read_the_reason_is_said() -> None:
    missing = CapturedWindow(capture=replace(CAPTURE, file=None, reason="the script ended first"))
    unreadable = CapturedWindow(capture=CAPTURE, unreadable="it is no trace")

    [without], [damaged] = find_lost_capture(missing), find_lost_capture(unreadable)

    assert (without.name, without.severity, sentence(without.remedy)) == ("no-capture", "notice", "the script ended first")
    assert (damaged.name, damaged.severity, sentence(damaged.remedy)) == ("capture-unreadable", "data_loss", "it is no trace")
