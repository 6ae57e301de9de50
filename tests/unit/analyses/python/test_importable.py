from __future__ import annotations

from dataclasses import fields

import pytest

from slowstep.analyses.python.importable import import_name
from slowstep.timeline.timeline import ProcessFacts

SCRIPT = "/home/user/project/train.py"


def facts(*import_path: str, script: str | None = SCRIPT) -> ProcessFacts:
    known = {"pid": 1, "role": "trainer", "script": script, "import_path": import_path, "notes": {}, "training_frames": {}}
    known |= {"training_paths": {}, "forward_path": ()}
    required = {field.name: None for field in fields(ProcessFacts)}
    return ProcessFacts(**(required | known))


@pytest.mark.parametrize(
    ("function", "file", "expected"),
    [
        ("plot", SCRIPT, "__main__:plot"),
        ("Net.forward", SCRIPT, "__main__:Net.forward"),
        ("main.<locals>.plot", SCRIPT, "__main__:main.<locals>.plot"),
        ("plot", "/home/user/project/out/../train.py", "__main__:plot"),
        ("blur", "/home/user/project/data.py", "data:blur"),
        ("blur", "/home/user/project/out/../data.py", "data:blur"),
        ("blur", "/home/user/project/tools/images.py", "tools.images:blur"),
        ("blur", "/home/user/project/tools/__init__.py", "tools:blur"),
        ("decode", "/venv/lib/python3.11/site-packages/PIL/Image.py", "PIL.Image:decode"),
    ],
)
def test_a_function_is_named_as_it_is_imported(function, file, expected):
    where = facts("/home/user/project", "/venv/lib/python3.11/site-packages", "/venv/lib/python3.11")

    assert import_name(function, file, where) == expected


@pytest.mark.parametrize(
    ("function", "file"),
    [
        ("<lambda>", SCRIPT),
        ("line 12", SCRIPT),
        ("blur", None),
        ("blur", "/elsewhere/data.py"),
        ("blur", "/home/user/project/my-tools/images.py"),
        ("blur", "/home/user/project/fast.so"),
        ("blur", "cell In[3]"),
    ],
)
def test_what_cannot_be_imported_has_no_name(function, file):
    assert import_name(function, file, facts("/home/user/project")) is None


def test_a_module_of_a_package_that_was_started_with_m_goes_by_its_whole_name():
    started_with_m = facts("/home/user/project", script="/home/user/project/pkg/train.py")

    assert import_name("blur", "/home/user/project/pkg/data.py", started_with_m) == "pkg.data:blur"
