from __future__ import annotations

import pytest

from made_events import Events
from slowstep.analyses.python.functions import is_library, same_function
from slowstep.analyses.python.loop import LoopCall, are_lines_comparable, called_from_loop
from slowstep.analyses.steps.cell_code import without_shell
from slowstep.sources._recording.cells import cell_name
from slowstep.sources.recording import SOURCE
from slowstep.timeline.timeline import Frame

KERNEL_FILE = "/tmp/ipykernel_123/456.py"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (KERNEL_FILE, "cell In[7]"),
        ("<ipython-input-3-0a1b2c>", "cell In[3]"),
        ("/tmp/ipykernel_123/999.py", "/tmp/ipykernel_123/999.py"),
        ("<stdin>", "<stdin>"),
        ("/home/u/train.py", "/home/u/train.py"),
    ],
)
def test_a_cell_is_called_what_the_notebook_calls_it(file, name):
    assert cell_name(file, {KERNEL_FILE: 7}) == name


def test_cells_are_named_wherever_a_recording_names_a_file(tmp_path):
    events = Events(tmp_path)
    frame = {"file": KERNEL_FILE, "function": "<module>", "first_line": 1, "line": 3}
    events.trainer.lines += [
        {"kind": "frame", "id": 1, **frame},
        {"kind": "stack", "id": 1, "frames": [1]},
        {"kind": "training_frame", "optimizer": 0, **frame},
        {"kind": "forward_frame", **frame},
        {"kind": "training_path", "optimizer": 0, "frames": [[KERNEL_FILE, "<module>", 1, 3]]},
        {"kind": "loops", "optimizer": 0, "functions": [[KERNEL_FILE, "<module>", 1, [[5, 8]]]]},
        {"kind": "calls", "of": "fetch", "stretches": 1, "whole_ns": 1}
        | {"functions": [{"file": KERNEL_FILE, "function": "load", "line": 2, "total_ns": 1, "own_ns": 1, "callees": []}]},
        {"kind": "iterator", "id": 5, "loader": 5, "num_workers": 0, "workers": [], "collate_file": KERNEL_FILE, "collate_line": 4},
    ]
    # The last word counts: a cell that is run again gets another number.
    events.launcher.lines += [{"kind": "cells", "cells": {KERNEL_FILE: 2}}, {"kind": "cells", "cells": {KERNEL_FILE: 7}}]
    events.step(0)

    timeline = SOURCE.read(events.close())

    assert timeline.table("frames")["file"].to_list() == ["cell In[7]"]
    assert timeline.table("calls")["file"].to_list() == ["cell In[7]"]
    assert timeline.table("iterators")["collate_file"].to_list() == ["cell In[7]"]
    (facts,) = timeline.processes
    assert facts.training_frames[0].file == "cell In[7]"
    assert [frame.file for frame in facts.training_paths[0]] == ["cell In[7]"]
    assert facts.inner_loops == {0: {("cell In[7]", "<module>", 1): [[5, 8]]}}
    assert facts.forward_frame is not None
    assert facts.forward_frame.file == "cell In[7]"


@pytest.mark.parametrize("cells", [[], {"a": "b"}, None, {"a": 2**70}])
def test_a_malformed_line_about_cells_is_left_out_and_counted(tmp_path, cells):
    events = Events(tmp_path)
    events.launcher.lines.append({"kind": "cells", "cells": cells})
    events.step(0)

    assert "malformed-notes" in [row.name for row in SOURCE.read(events.close()).health]


def module(file: str, line: int = 3) -> Frame:
    return Frame(file=file, function="<module>", first_line=1, line=line)


@pytest.mark.parametrize("file", ["cell In[3]", "<stdin>", "<python-input-12>"])
def test_what_was_typed_is_the_users_own(file):
    assert not is_library(module(file))


@pytest.mark.parametrize("file", ["<string>", "<frozen runpy>", "<attrs generated init>"])
def test_generated_code_is_nobodys(file):
    assert is_library(module(file))


def test_the_top_level_of_one_cell_goes_on_in_the_next():
    loop, again, script = module("cell In[3]"), module("cell In[5]", line=9), module("/home/u/train.py")
    callback = Frame(file="cell In[1]", function="callback", first_line=4, line=5)

    assert same_function(loop, again)
    assert not same_function(loop, script)
    assert not same_function(module("/home/u/a.py"), script)
    assert called_from_loop((again, callback), (loop,)) == LoopCall("callback", "cell In[1]", 4)
    assert called_from_loop((again,), (loop,)) == LoopCall(None, "cell In[5]", 9)


def test_what_a_notebook_does_to_run_a_cell_is_no_part_of_a_path():
    shell = Frame(file="/v/lib/python3.11/site-packages/IPython/core/interactiveshell.py", function="run_code", first_line=1, line=2)
    train = Frame(file="cell In[2]", function="train", first_line=1, line=5)

    assert without_shell((shell, module("cell In[3]"), shell, module("cell In[3]"), train)) == (module("cell In[3]"), train)
    assert without_shell((shell, train)) == (shell, train)


def test_a_function_that_two_cells_call_is_the_loop_in_both():
    train = Frame(file="cell In[2]", function="train", first_line=1, line=5)
    save = Frame(file="cell In[2]", function="save", first_line=20, line=21)
    at_six = Frame(file="cell In[2]", function="train", first_line=1, line=6)

    assert called_from_loop((module("cell In[5]", line=9), at_six, save), (module("cell In[3]"), train)) == LoopCall(
        "save", "cell In[2]", 20
    )


def test_lines_of_two_cells_tell_no_before_and_after():
    here, there = module("cell In[3]"), module("cell In[5]", line=2)
    train = Frame(file="cell In[2]", function="train", first_line=1, line=5)

    assert not are_lines_comparable((there,), (here,), (), 0)
    assert are_lines_comparable((here,), (module("cell In[3]", line=8),), (), 0)
    assert are_lines_comparable((there, train), (here, train), (), 0)
    assert are_lines_comparable((module("<stdin>"),), (module("<stdin>"),), (), 0)
    assert not are_lines_comparable((module("<stdin>"),), (module("<stdin>"),), (), 7)
