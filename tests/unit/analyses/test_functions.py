from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.functions import Stacks as StacksOfThread
from slowstep.analyses.functions import above, callee, inside, is_library, own_frames, shown, writes
from slowstep.timeline.timeline import Frame

SITE = "/opt/venv/lib/python3.12/site-packages"


def _frame(function: str, file: str = "/home/u/p/train.py", line: int = 5, first: int = 1) -> Frame:
    return Frame(file=file, function=function, first_line=first, line=line)


MAIN, LOAD, AUGMENT = _frame("main"), _frame("load", first=10), _frame("augment", first=20)
TORCH = _frame("_call", f"{SITE}/torch/nn/modules/module.py")
FETCH = _frame("fetch", f"{SITE}/torch/utils/data/_utils/fetch.py")


@pytest.mark.parametrize(
    ("file", "library"),
    [
        (f"{SITE}/torch/nn.py", True),
        ("/usr/lib/python3.11/json/decoder.py", True),
        ("/usr/lib/python3/dist-packages/yaml.py", True),
        ("<frozen importlib>", True),
        ("C:\\venv\\Lib\\site-packages\\torch\\nn.py", True),
        ("/home/u/p/train.py", False),
        ("/home/u/lib/pythonic/train.py", False),
    ],
)
def test_installed_and_frozen_code_is_not_the_users(file, library):
    assert is_library(_frame("f", file)) is library


def test_recursion_stands_at_its_innermost_call():
    again = _frame("main", line=9)

    assert above((MAIN, LOAD, again, AUGMENT), MAIN) == (again, AUGMENT)
    assert above((LOAD,), MAIN) == ()


def test_a_path_without_own_frames_keeps_its_outermost_library_frame():
    assert own_frames((TORCH, FETCH)) == (TORCH,)
    assert own_frames(()) == ()


@pytest.mark.parametrize(
    ("path", "name"),
    [((MAIN, TORCH, LOAD, AUGMENT), "load"), ((MAIN, TORCH), "line 5"), ((LOAD, AUGMENT), "load"), ((), None)],
    ids=["called through a library", "its own line", "not through the training frame", "nothing"],
)
def test_a_gap_is_named_by_what_the_training_frame_had_called(path, name):
    called = callee(path, MAIN)

    assert (called[0] if called else None) == name


@pytest.mark.parametrize(
    ("file", "writing"),
    [
        ("/usr/lib/python3.11/logging/__init__.py", True),
        (f"{SITE}/torch/utils/tensorboard/writer.py", True),
        (f"{SITE}/tensorboardX/writer.py", True),
        ("/usr/lib/python3.11/csv.py", True),
        (f"{SITE}/matplotlib/figure.py", False),
    ],
)
def test_writers_of_logs_are_recognised(file, writing):
    assert writes((MAIN, _frame("write", file))) is writing


@pytest.mark.parametrize(
    ("file", "expected"),
    [("/home/u/p/train.py", "train.py"), ("/home/u/p/data/sets.py", "data/sets.py"), ("/srv/shared/lib/io.py", "lib/io.py")],
)
def test_paths_are_shown_relative_to_the_script_or_by_their_end(file, expected):
    assert shown(file, "/home/u/p/train.py") == expected
    assert shown("/a/b/c.py", None) == "b/c.py"


def test_stacks_on_the_edge_belong_to_the_interval_that_begins_there():
    stacks = StacksOfThread(time_ns=np.array([5, 10, 15, 20, 30]), weight_ns=np.ones(5), stack=np.zeros(5, dtype=np.int64), frames={})

    assert inside(stacks, np.array([10, 20]), np.array([15, 30])).tolist() == [1, 3]
    assert inside(stacks, np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []
