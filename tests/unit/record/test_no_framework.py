"""The recorder names no framework: what knows one stands in frameworks/, and is asked through record/framework.py."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

import slowstep
from slowstep.frameworks._known import all_trace_events, all_words
from slowstep.record.framework import Framework, described, known_frameworks

ROOT = Path(slowstep.__path__[0])
NAMES = re.compile(
    r"(?i)torch|lightning|transformers|hugging|accelerate\b|tensorflow|keras|\bjax\b|\bxla\b|autocast|gradscaler|state_dict|param_groups"
    r"|nn\.module|data_?loader\b|autograd|\baten\b"
)
# What may, and why.
MAY = {
    "record/system/place.py": "variables by which a launcher of ranks is known",
    "record/system/redact.py": "names of environment variables that are recorded",
    "record/timing/call_times.py": "how Python's profiler writes a function that is none of Python's, as an example",
}
# A lever that is called as one framework calls it.
LEVERS = {"levers/autocast.py"}


def named(text: str) -> list[str]:
    """What of a file's text names a framework, comments and docstrings included."""
    return [match.group() for match in NAMES.finditer(text)]


def _files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_no_file_of_the_recorder_names_a_framework():
    found = {str(file.relative_to(ROOT)): named(file.read_text(encoding="utf-8")) for file in _files("record")}

    assert {file: names for file, names in found.items() if names and file not in MAY} == {}


@pytest.mark.parametrize("file", MAY)
def test_a_file_that_may_name_one_does(file):
    assert named((ROOT / file).read_text(encoding="utf-8"))


def test_the_name_of_every_framework_is_looked_for():
    folders = [folder.name for folder in (ROOT / "frameworks").iterdir() if (folder / "inside").is_dir() or (folder / "outside").is_dir()]

    assert len(folders) > 5
    assert [name for name in folders if not named(name)] == []


def test_no_code_of_a_lever_names_a_framework():
    found = {str(file.relative_to(ROOT)) for file in _files("levers") if named(_code(file))}

    assert found == LEVERS


def _code(file: Path) -> str:
    """A file without its comments and, of a lever, its docstring, which tells users of each framework what it changes."""
    text = file.read_text(encoding="utf-8")
    if not file.name.startswith("_") and file.parent.name == "levers":
        text = text.split('"""', 2)[2]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(token.string for token in tokens if token.type != tokenize.COMMENT)


def test_a_name_is_seen_in_code_and_in_words():
    assert named('x = sys.modules.get("torch._dynamo")  # as of a DataLoader') == ["torch", "DataLoader"]
    assert named("an accelerator, an optimizer, a loader") == []


@pytest.mark.parametrize("framework", known_frameworks(), ids=lambda framework: framework.name)
def test_a_framework_says_by_which_packages_its_frames_are_known(framework: Framework):
    (package, *_) = framework.packages

    assert framework.owns(f"/usr/lib/python3.12/site-packages/{package}/x.py")
    assert not framework.owns(f"/home/me/{package}/x.py")


def test_every_folder_of_a_framework_says_what_it_is_under_its_own_name():
    folders = {path.name: path for path in (ROOT / "frameworks").iterdir() if (path / "__init__.py").exists()}
    recorded = {name for name, path in folders.items() if (path / "inside").exists()}

    assert {framework.name for framework in known_frameworks()} == recorded
    assert {name for name, path in folders.items() if (path / "outside/words.py").exists()} == set(all_words())
    assert {name for name, path in folders.items() if (path / "outside/trace_events.py").exists()} == set(all_trace_events())
    assert recorded | set(all_trace_events()) == set(folders)


def test_of_parameters_the_elements_and_the_tallest_matrix_are_told():
    shapes = [("float32", (10,)), ("float32", (50, 4)), ("float16", (7, 90)), ("float32", (99, 2, 2))]

    assert described(shapes, "cpu") == {"params": 1236, "dtypes": {"float32": 606, "float16": 630}, "device": "cpu", "tallest": [50, 4]}
    assert described(shapes[:1], "cpu")["tallest"] is None


def test_a_framework_that_says_nothing_is_asked_without_harm():
    framework = Framework()

    assert framework.rank() is None
    assert not framework.has_compiled()
    assert framework.graph_nodes() is None
    assert framework.describe_optimizer(object()) == {"params": None, "dtypes": None, "device": None, "fused": None}
    assert not framework.owns("/usr/lib/python3.12/site-packages/torch/x.py")
