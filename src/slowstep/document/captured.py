"""What is said of the capture of a few steps in a recording: where it is, what it shows, and why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from slowstep.analyses.measurements import CapturedWindow, Measurements
from slowstep.analyses.steps.captures import Capture
from slowstep.command_words import analyze
from slowstep.document.run_rows import CaptureFacts
from slowstep.health import Health, HealthKind
from slowstep.units import format_count, format_share

CAPTURE_UNREADABLE: Final = HealthKind("capture-unreadable", "data_loss", "{why}")
NO_CAPTURE: Final = HealthKind("no-capture", "notice", "{why}")
CAPTURE_SLOWED: Final = HealthKind(
    "capture-slowed", "notice", "steps are {longer:share} longer since the capture of steps {steps}: figures after it are too high"
)


def capture_facts(folder: Path, captured: CapturedWindow) -> CaptureFacts:
    """The capture as a part of the run, of one in this folder that could be read."""
    capture = captured.capture
    extra_ms = None if capture.extra_ns is None else capture.extra_ns / 1e6
    return {"file": str(_file(folder, capture)), "steps": captured.steps, "extra_ms": extra_ms}


def capture_note(folder: Path, captured: CapturedWindow, m: Measurements) -> str:
    """What was captured, and how to look at it."""
    busy = "" if m.device.busy_share is None else f", the device busy {format_share(m.device.busy_share)} of the time"
    seen = format_count(m.facts.events, "event")
    return f"steps {captured.steps} were captured by {captured.capture.profiler} ({seen}{busy}): {analyze(_file(folder, captured.capture))}"


def _file(folder: Path, capture: Capture) -> Path:
    return folder / (capture.file or "")


def find_lost_capture(captured: CapturedWindow) -> list[Health]:
    """Why nothing can be made of a capture, or what it does to the figures of the recording."""
    capture = captured.capture
    if captured.unreadable is not None:
        return [CAPTURE_UNREADABLE(1, why=captured.unreadable)]
    if captured.m is None:
        return [NO_CAPTURE(1, why=capture.reason or "why is not known")]
    if not capture.lasts:
        return []
    return [CAPTURE_SLOWED(1, longer=(capture.slowdown or 1) - 1, steps=captured.steps)]
