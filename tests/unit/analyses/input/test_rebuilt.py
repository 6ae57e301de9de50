"""What is made anew for the loader between two passes is input's work, and what else runs there is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_recordings import SCRIPT, Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.sources.recording import SOURCE

SAMPLERS = {"sampler_classes": [["/usr/lib/python3.11/site-packages/torch/utils/data/sampler.py", "BatchSampler"], [SCRIPT, "Balanced"]]}
DATA_SETS = {"data_set_classes": [[SCRIPT, "Pictures"]]}
MAKERS = {"made_in": [[SCRIPT, "make_loader", 80], [SCRIPT, "main", 1]]}
# The last steps of epochs of 25, and others in the middle of epochs.
LAST, MIDDLE = tuple(range(24, 200, 25)), tuple(range(12, 200, 25))


def measured(folder: Path, after: str, code: dict[str, Any], *, on: tuple[int, ...] = LAST, **changes: Any) -> Measurements:
    """200 steps in epochs of 25; the function runs for half a second after some of them."""
    training = Training(steps=200, after=after, after_ms=500, after_on=on, input_code=code, **changes)
    return measure_recording(SOURCE.read(make_recording(folder, training)))


def stage_of(m: Measurements, name: str) -> str:
    """Where the ledger has the function."""
    return max((part for part in m.ledger.parts if part.name == name), key=m.ledger.total_of).stage


@pytest.mark.parametrize(
    ("after", "code"),
    [("Balanced.__init__", SAMPLERS), ("Pictures.resample", DATA_SETS), ("make_loader", MAKERS)],
    ids=["a sampler is made", "a data set draws samples", "a function makes the loader"],
)
def test_what_makes_what_the_loader_reads_between_passes_is_preprocess(tmp_path, after, code):
    m = measured(tmp_path, after, code)

    assert stage_of(m, after) == "preprocess"
    assert [part.name for part in m.input.rebuilt.parts] == [after]
    assert m.input.rebuilt.every_steps == 25
    assert m.input.rebuilt.ns.sum() == pytest.approx(m.ledger.total_of(m.input.rebuilt.parts[0]))


@pytest.mark.parametrize("changes", [{"workers": 2}, {"workers": 0}], ids=["workers", "no workers"])
def test_so_it_is_whoever_makes_the_batches(tmp_path, changes):
    assert stage_of(measured(tmp_path, "make_loader", MAKERS, **changes), "make_loader") == "preprocess"


def test_a_sampler_that_is_told_of_results_is_input_in_the_middle_of_a_pass_too(tmp_path):
    m = measured(tmp_path, "Balanced.reweigh", SAMPLERS, on=MIDDLE)

    assert stage_of(m, "Balanced.reweigh") == "preprocess"


@pytest.mark.parametrize("every", [5, 2, 1])
def test_how_often_it_is_made_is_its_own_period_and_not_that_of_the_passes(tmp_path, every):
    m = measured(tmp_path, "Balanced.reweigh", SAMPLERS, on=tuple(range(every - 1, 200, every)))

    assert m.input.rebuilt.every_steps == every


@pytest.mark.parametrize(
    ("after", "code", "on"),
    [
        ("Pictures.decode", DATA_SETS, MIDDLE),
        ("Pictures.evaluate", DATA_SETS, LAST),
        ("log_epoch", DATA_SETS | SAMPLERS | MAKERS, LAST),
        ("Pictures.resample", {}, LAST),
    ],
    ids=["a data set is asked in a pass", "it judges results", "another function", "an older recording"],
)
def test_all_else_stays_output(tmp_path, after, code, on):
    m = measured(tmp_path, after, code, on=on)

    assert stage_of(m, after) == "output"
    assert m.input.rebuilt is None


def test_a_function_of_the_same_name_in_another_file_makes_no_input(tmp_path):
    m = measured(tmp_path, "Pictures.resample", {"data_set_classes": [["/home/user/project/other.py", "Pictures"]]})

    assert stage_of(m, "Pictures.resample") == "output"


@pytest.mark.parametrize(
    "code",
    [{"sampler_classes": [[SCRIPT]]}, {"data_set_classes": "Pictures"}, {"made_in": [[SCRIPT, "make_loader", "80"]]}, {"made_in": 3}],
)
def test_a_damaged_note_is_left_out_and_counted(tmp_path, code):
    timeline = SOURCE.read(make_recording(tmp_path, Training(steps=50, input_code=code)))

    assert timeline.table("input_code").is_empty()
    assert sum(facts.lost_notes for facts in timeline.processes) > 0
