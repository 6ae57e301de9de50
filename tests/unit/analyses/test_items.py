"""The function that holds most of the making of samples, from the calls and lines that were recorded of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_recordings import DATA, Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.python.calls import TimedFunction
from slowstep.sources.recording import SOURCE

LIBRARY = "/opt/venv/lib/python3.11/site-packages/torchvision/data.py"
# Of the making, less than half is in one function below the data set's method.
SPREAD = ("augment", 0.3)


def counted(function: str, first: int, *lines: tuple[int, int, int]) -> dict[str, Any]:
    """Lines of a function in one fetch: number, how often it ran, us in it; both its calls ended meanwhile."""
    place = {"file": DATA, "function": function, "first_line": first}
    rows = [{**place, "line": line, "count": count, "ns": us * 1000} for line, count, us in lines]
    told = {**place, "calls": 2, "hooks": 0, "inside": 0, "gradient": 0, "nothing": 0, "nodes": 0, "of_nodes": 0}
    return {"kind": "lines", "of": "fetch", "complete": True, "lines": rows, "functions": [told]}


def held(folder: Path, *notes: dict[str, Any], **training: Any) -> TimedFunction:
    recording = make_recording(folder, Training(workers=0, steps=120, producer_lines=notes, **training))
    found = measure_recording(SOURCE.read(recording)).input.fetch_function
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("notes", "share"),
    [
        ((), None),
        ((counted("__getitem__", 20, (21, 2, 100), (22, 1000, 900)),), 0.9),
        ((counted("__getitem__", 20, (21, 2, 900), (22, 1000, 100)),), 0.1),
    ],
    ids=["not counted", "a loop", "an operation"],
)
def test_of_a_method_with_many_parts_it_is_known_how_much_is_a_loop(tmp_path, notes, share):
    found = held(tmp_path, *notes, transform=SPREAD)

    assert (found.name, found.path) == ("__getitem__", ("__getitem__",))
    assert found.python_share == (None if share is None else pytest.approx(share))


def test_a_function_below_it_that_holds_most_is_named(tmp_path):
    found = held(tmp_path, counted("augment", 40, (41, 2, 100), (42, 1000, 900)), transform=("augment", 0.8))

    assert (found.name, found.share, found.python_share) == ("augment", pytest.approx(0.8), pytest.approx(0.9))
    assert len(found.path) == 2


@pytest.mark.parametrize("parts", [(), (("ToTensor.__call__", 0.4), ("Normalize.forward", 0.2))], ids=["one function", "several in it"])
def test_the_transforms_of_a_library_s_data_set_are_known_with_what_they_call(tmp_path, parts):
    found = held(tmp_path, transform=("Compose.__call__", 0.8), transform_calls=parts, data_file=LIBRARY)

    assert (found.name, found.of_library) == ("Compose.__call__", True)
    assert [name for name, _ in found.parts] == [name for name, _ in parts]
