"""What was measured on a machine says where it comes from, and its script is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slowstep import calibration
from slowstep.calibration import Calibration

ROOT = Path(__file__).parents[2]
ALL = {name: value for name, value in vars(calibration).items() if isinstance(value, Calibration)}


@pytest.mark.parametrize("value", ALL.values(), ids=ALL)
def test_a_measured_value_lies_within_its_bounds_and_says_whence_it_is(value: Calibration) -> None:
    low, high = value.bounds

    assert low <= value.value <= high
    assert all((value.unit, value.meaning, value.machine, value.measured_by))
    assert re.match(r"\d{4}-\d\d-\d\d", value.date)


@pytest.mark.parametrize("value", ALL.values(), ids=ALL)
def test_the_script_that_measures_it_is_there(value: Calibration) -> None:
    for path in re.findall(r"(?:benchmarks|examples)/[\w./]+", value.measured_by):
        assert (ROOT / path.rstrip(".,")).exists()


def test_every_measured_value_is_taken_from_here() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py") if path.name != "calibration.py")

    assert [name for name in ALL if not re.search(rf"\bcalibration\.{name}\b|import .*\b{name}\b", code)] == []
