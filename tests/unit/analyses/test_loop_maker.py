"""What is known of a function that makes batches in a loop without a loader, from timed calls and counted lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_gap_notes import counted, line, note, timed
from made_parts import function_part
from made_recordings import INPUT_LINE, Training, make_recording
from slowstep.analyses.input.loop_input import LoopInput
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import SOURCE

# A step of 3 ms, of which the loop makes a batch for 1.2 ms.
SHORT = {"loader": False, "workers": 0, "input_ms": 1.2, "fixed_ms": 1.0, "per_sample_ms": 0.04, "optimizer_ms": 0.1, "steps": 400}
MADE = note(line(INPUT_LINE, 1.2, "make"))


def made(folder: Path, *notes: dict[str, Any], **changes: float) -> LoopInput:
    recording = make_recording(folder, Training(**{**SHORT, **changes, "producer_lines": notes}))
    found = measure_recording(SOURCE.read(recording)).input.loop_input
    assert found is not None
    return found


def test_a_function_that_makes_batches_is_known_with_what_making_takes(tmp_path):
    found = made(tmp_path, MADE, timed(("make", 2.4, 0)))

    assert found.largest == function_part("preprocess", "make", "train.py", 60)
    assert float(found.made_ns.mean()) == pytest.approx(1.2e6, rel=0.05)


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        (counted("make", (61, 1, 0.1), (62, 400, 1.9)), 0.95),
        (counted("make", (61, 1, 0.1), (62, 1, 1.9)), 0.0),
        (counted("make", (61, 400, 0.5), (62, 1, 1.5)), 0.25),
        (counted("make", (61, 40, 1.9)), 0.0),
    ],
    ids=["a loop", "one long operation", "mostly one", "a few long operations"],
)
def test_how_much_of_it_is_a_loop_in_python_is_known_by_its_lines(tmp_path, lines, share):
    maker = made(tmp_path, MADE, timed(("make", 2.4, 0)), lines).maker

    assert maker is not None
    assert maker.python_share == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("lines", [(), (counted("other", (61, 400, 1.9)),)], ids=["none", "of another function"])
def test_without_its_lines_that_is_not_known(tmp_path, lines):
    maker = made(tmp_path, MADE, timed(("make", 2.4, 0)), *lines).maker

    assert maker is not None
    assert not maker.python_share


@pytest.mark.parametrize(("name", "is_loop"), [("zlib.decompress", False), ("torch.tensor", True)])
def test_long_calls_of_built_in_functions_are_no_loop_but_for_what_puts_its_results_together(tmp_path, name, is_loop):
    calls = timed(("make", 2.4, 1.8))
    calls["functions"][1]["function"] = f"built-in method {name}"

    maker = made(tmp_path, MADE, calls, counted("make", (61, 1, 0.1), (62, 400, 1.9))).maker

    assert maker is not None
    assert ((maker.python_share or 0.0) > 0.5) is is_loop


def test_a_wait_for_a_core_is_no_function_and_counts_once(tmp_path):
    found = made(tmp_path, MADE, timed(("make", 4.8, 0)), input_ms=3.6, input_delay_ms=2.4)

    assert found.largest == function_part("preprocess", "make", "train.py", 60)
    assert float(found.made_ns.mean()) == pytest.approx(1.2e6, rel=0.05)
    assert float(found.delay_ns.mean()) == pytest.approx(2.4e6, rel=0.05)
