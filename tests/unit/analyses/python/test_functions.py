from __future__ import annotations

import json

import numpy as np
import pytest

from made_recordings import SCRIPT, Training, make_recording
from slowstep.analyses.python.functions import Stacks as StacksOfThread
from slowstep.analyses.python.functions import (
    inside,
    is_evaluating,
    is_forward,
    is_library,
    is_waiting,
    own_frames,
    read_stacks,
    reports,
    shown,
    writes,
)
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.sources.recording import SOURCE
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


def test_calls_that_begin_in_one_place_are_told_apart_by_their_ends(tmp_path):
    folder = make_recording(tmp_path, Training())
    place = {"file": SCRIPT, "function": "forward", "first_line": 50, "line": 52, "column": 4, "called": "relu", "in_loop": False}
    with (folder / "100-1.jsonl").open("a") as notes:
        for number, end in ((9001, 12), (9002, 19)):
            notes.write(json.dumps({"kind": "frame", "id": number, **place, "end_column": end}) + "\n")
            notes.write(json.dumps({"kind": "stack", "id": number, "frames": [number]}) + "\n")

    timeline = SOURCE.read(folder)

    frames = read_stacks(timeline, find_trainer(timeline).process).frames
    assert len({frames[number][0].call for number in (9001, 9002)}) == 2


def test_a_path_without_own_frames_keeps_its_outermost_library_frame():
    assert own_frames((TORCH, FETCH)) == (TORCH,)
    assert own_frames(()) == ()


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
    ("file", "waiting"),
    [
        ("/usr/lib/python3.11/threading.py", True),
        ("/usr/lib/python3.11/concurrent/futures/_base.py", True),
        ("/usr/lib/python3.11/multiprocessing/connection.py", True),
        ("/home/u/p/queue_of_mine.py", False),
        ("/usr/lib/python3.11/socket.py", False),
    ],
)
def test_waiting_for_another_thread_is_recognised(file, waiting):
    assert is_waiting((MAIN, _frame("wait", file))) is waiting


@pytest.mark.parametrize(("function", "forward"), [("forward", True), ("Layer.forward", True), ("forward_hook", False), ("step", False)])
def test_a_forward_is_known_by_its_name(function, forward):
    assert is_forward((MAIN, _frame(function), _frame("relu"))) is forward


@pytest.mark.parametrize(
    ("function", "evaluating"),
    [("validate", True), ("Trainer.eval_step", True), ("run_validation", True), ("test", True), ("evaluate", True), ("valuable", False),
     ("step", False), ("latest", False)],
)  # fmt: skip
def test_names_that_people_give_to_validations_are_recognised(function, evaluating):
    assert is_evaluating((MAIN, _frame(function))) is evaluating


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/u/p/train.py", "train.py"),
        ("/home/u/p/data/sets.py", "data/sets.py"),
        ("/home/u/p/out/../train.py", "train.py"),
        ("/srv/shared/lib/io.py", "lib/io.py"),
        ("/home/u/p/.venv/lib/python3.12/site-packages/torch/utils/data/_utils/collate.py", "_utils/collate.py"),
    ],
)
def test_paths_are_shown_relative_to_the_script_or_by_their_end(file, expected):
    assert shown(file, "/home/u/p/train.py") == expected
    assert shown("/a/b/c.py", None) == "b/c.py"


def test_stacks_on_the_edge_belong_to_the_interval_that_begins_there():
    times, none = np.array([5, 10, 15, 20, 30]), np.zeros(5, dtype=np.int64)
    stacks = StacksOfThread(time_ns=times, weight_ns=np.ones(5), stack=none, frames={}, blocked=none > 0, device_idle=none.astype(np.int8))

    assert inside(stacks, np.array([10, 20]), np.array([15, 30])).tolist() == [1, 3]
    assert inside(stacks, np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("file", "reporting"),
    [
        (f"{SITE}/lightning/pytorch/loggers/csv_logs.py", True),
        (f"{SITE}/transformers/trainer_callback.py", True),
        (f"{SITE}/lightning/pytorch/loops/training_epoch_loop.py", False),
    ],
)
def test_loggers_and_callbacks_of_frameworks_are_recognised(file, reporting):
    assert reports((MAIN, _frame("save", file))) is reporting
