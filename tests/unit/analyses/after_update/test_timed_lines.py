"""Gaps of a loop without a loader, divided by lines that were timed in a few of them."""

from __future__ import annotations

import pytest

from made_gap_notes import BEGINS, line, note, timed
from made_parts import function_part, lines_part
from made_recordings import INPUT_LINE, LOOP, MS, Training, make_recording
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.sources.recording import SOURCE

FILE, FUNCTION, FIRST, UPDATE = LOOP
MAKE = function_part("preprocess", "make", "train.py", BEGINS)
DRAW = function_part("output", "draw", "train.py", BEGINS)


def measured(folder, *notes, **changes) -> Measurements:
    """Of a loop whose gaps take 12 ms above the forward by stacks: all in a function of torch's."""
    training = Training(**{"steps": 300, "loader": False, "workers": 0, "input_ms": 12, "producer_lines": notes, **changes})
    return measure_recording(SOURCE.read(make_recording(folder / "recording", training)))


def ledger_of(folder, *notes) -> Ledger:
    return measured(folder, *notes).ledger


def gaps_of(ledger: Ledger) -> float:
    """The share of the gaps."""
    return ledger.share("preprocess") + ledger.share("output")


def test_a_line_above_the_forward_is_input_and_has_the_name_of_what_it_calls(tmp_path):
    ledger = ledger_of(tmp_path, note(line(INPUT_LINE - 1, 11, "make"), line(INPUT_LINE, 1)), timed(("make", 22, 0)))

    assert ledger.share_of(MAKE) == pytest.approx(11 / 12 * gaps_of(ledger), rel=0.02)
    assert ledger.timed[MAKE] == 3


def test_a_line_below_the_update_is_output(tmp_path):
    ledger = ledger_of(tmp_path, note(line(UPDATE + 2, 12, "draw")), timed(("draw", 24, 0)))

    assert ledger.share_of(DRAW) > 0.3


def test_what_timing_adds_is_taken_off_what_tracing_makes_longer_still(tmp_path):
    # A loop in Python, twice as long while it is timed and four times while it is traced, and an operation that knows of neither.
    lines = note(line(INPUT_LINE - 1, 24, "make"), line(UPDATE + 2, 6, "draw"))

    ledger = ledger_of(tmp_path, lines, timed(("make", 12, 0), ("draw", 6, 6)))

    # A gap takes 12 ms where nobody looks.
    assert ledger.share_of(MAKE) == pytest.approx(ledger.share_of(DRAW), rel=0.02)


def test_what_is_added_to_two_loops_is_taken_off_both(tmp_path):
    lines = note(line(INPUT_LINE - 1, 32, "make"), line(UPDATE + 2, 16, "draw"))

    ledger = ledger_of(tmp_path, lines, timed(("make", 16, 0), ("draw", 8, 0)))

    assert ledger.share_of(MAKE) == pytest.approx(2 * ledger.share_of(DRAW), rel=0.02)


def test_counted_calls_are_slowed_less_by_timing(tmp_path):
    def share(call_ns):
        made = line(INPUT_LINE - 1, 16, "make", calls=3 * 6 * 1000)
        lines = note(made, line(UPDATE + 2, 16, "draw"), call_ns=call_ns)
        ledger = ledger_of(tmp_path / str(call_ns), lines, timed(("make", 8, 0), ("draw", 8, 0)))
        return ledger.share_of(MAKE) / ledger.share_of(DRAW)

    assert share(0.0) == pytest.approx(1, rel=0.02)
    assert share(MS / 1000) > 1.1


def test_of_what_is_mostly_calls_the_recorder_knows_what_timing_costs(tmp_path):
    made = line(INPUT_LINE - 1, 40, "make", calls=3 * 30 * 1000)

    ledger = ledger_of(tmp_path, note(made, line(UPDATE + 2, 6, "draw"), call_ns=MS / 1000), timed(("make", 12, 0), ("draw", 6, 6)))

    # It makes Python code twice as slow.
    assert ledger.share_of(MAKE) == pytest.approx(ledger.share_of(DRAW), rel=0.02)


def test_of_a_line_that_calls_nothing_timed_the_counting_is_taken_out(tmp_path):
    counted = line(UPDATE + 2, 6 + 5, calls=3 * 5 * 1000)

    ledger = ledger_of(tmp_path, note(line(INPUT_LINE - 1, 6, "make"), counted, call_ns=MS / 1000), timed(("make", 6, 6)))

    assert ledger.share_of(MAKE) == pytest.approx(ledger.share_of(lines_part("output", "train.py", UPDATE + 2)), rel=0.02)


def test_where_most_was_counting_timed_calls_tell(tmp_path):
    counted = line(INPUT_LINE - 1, 100, "make", calls=3 * 99 * 1000)

    ledger = ledger_of(tmp_path, note(counted, line(UPDATE + 2, 9, "draw"), call_ns=MS / 1000), timed(("make", 6, 0), ("draw", 99, 0)))

    # Timed calls take twice as long.
    assert ledger.share_of(MAKE) == pytest.approx(3 / 12 * gaps_of(ledger), rel=0.02)


def test_a_line_that_calls_two_functions_has_its_own_name(tmp_path):
    ledger = ledger_of(tmp_path, note(line(INPUT_LINE - 1, 12, "make load")), timed(("make", 12, 0), ("load", 12, 0)))

    assert ledger.share_of(lines_part("preprocess", "train.py", INPUT_LINE - 1)) > 0.3


@pytest.mark.parametrize(
    "notes",
    [
        (note(line(UPDATE + 2, 12, "draw", gaps=2), gaps=2), timed(("draw", 24, 0))),
        (note(line(UPDATE + 2, 12, "draw")),),
    ],
    ids=["two gaps", "no timed calls"],
)
def test_too_little_tells_nothing(tmp_path, notes):
    ledger = ledger_of(tmp_path, *notes)

    assert ledger.total("output") == 0


def test_a_function_that_is_not_the_training_s_is_left_to_stacks(tmp_path):
    ledger = ledger_of(tmp_path, note(line(UPDATE + 2, 12, "draw", function="other")), timed(("draw", 24, 0)))

    assert ledger.total("output") == 0


def test_gaps_that_are_longer_than_the_timed_ones_are_divided_by_stacks(tmp_path):
    ledger = ledger_of(tmp_path, note(line(UPDATE + 2, 1, "draw")), timed(("draw", 2, 0)))

    # Twice as long at most as when it was timed.
    assert ledger.share_of(DRAW) == pytest.approx(gaps_of(ledger) * 2 / 12, rel=0.05)


def test_in_a_loop_with_a_loader_they_mean_nothing(tmp_path):
    notes = note(line(UPDATE + 2, 12, "draw")), timed(("draw", 24, 0))

    assert measured(tmp_path / "fed", *notes, loader=True, input_ms=0).after_update.gap_lines is None
    assert measured(tmp_path / "not fed", *notes).after_update.gap_lines is not None


@pytest.mark.parametrize(
    "damage",
    [{"lines": None}, {"lines": [1]}, {"lines": [{"file": FILE}]}, {"call_ns": "much"}, {"gaps": None},
     {"lines": [{"file": FILE, "function": FUNCTION, "first_line": FIRST, "line": 32, "ns": 10, "calls": 0, "callees": "draw"}]}],
    ids=str,
)  # fmt: skip
def test_a_damaged_note_is_left_out(tmp_path, damage):
    ledger = ledger_of(tmp_path, {**note(line(UPDATE + 2, 12, "draw")), **damage}, timed(("draw", 24, 0)))

    assert ledger.total("output") == 0
