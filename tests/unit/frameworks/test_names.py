"""Analyses find code of a framework by what its folder says of it; where they know names of one still, is written down here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowstep
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import all_trace_events, all_words, code, device_of, events
from slowstep.frameworks._words import Code, Named

ROOT = Path(slowstep.__path__[0])
NAMES = re.compile(
    r"(?i)torch|lightning|transformers|hugging|accelerate\b|tensorflow|keras|\bjax\b|\bxla\b|autocast|gradscaler|state_dict|nn\.module"
    r"|data_?loader\b|autograd|\baten\b|trainer_callback|c10d|\bconv(_?transpose)?[123]d|scaled_dot|channels_last|cuda_available"
    r"|nvfuser|\bself\.log\b|\.item\(\)|\.detach\(\)|\.numpy\(\)"
)
# A path of a framework's files: its name, and a separator, as a path or a pattern has it.
FILES = re.compile(r"(?i)(torch|lightning|transformers|accelerate|tensorflow|keras|jax)(\[/\\\\+\]|/|\\\\)\w*")
_TABLE = "an example in the description of a column, or a value of it"
ANALYSES = {
    "events/tables.py": _TABLE,
    "sharing/collectives.py": "the compiler whose collectives those are, as NCCL and Gloo are libraries of them",
}
DIAGNOSIS = {
    "rules/over_time/growing_step_time.py": "the names of evidence that reports have had since they count operations",
    "rules/compute/python_between_operations.py": "the name of evidence that reports have had since they count operations",
}


def _texts(source: str) -> Iterator[str]:
    """The texts of a module, docstrings and comments left out."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def _found(folder: str, pattern: re.Pattern[str], root: Path = ROOT) -> set[str]:
    paths = sorted((root / folder).rglob("*.py"))
    sources = {path: text for path in paths if pattern.search(text := path.read_text(encoding="utf-8"))}
    return {str(path.relative_to(root)) for path, text in sources.items() if any(map(pattern.search, _texts(text)))}


def test_analyses_that_know_names_of_a_framework_are_these():
    assert {file.partition("/")[2] for file in _found("analyses", NAMES)} == set(ANALYSES)


def test_rules_and_verdicts_that_know_names_of_a_framework_are_these():
    assert {file.partition("/")[2] for file in _found("diagnosis", NAMES)} == set(DIAGNOSIS)


@pytest.mark.parametrize("folder", ["diagnosis", "document", "report"])
def test_what_judges_and_reports_knows_no_file_of_a_framework(folder):
    assert _found(folder, FILES) == set()


def test_a_name_is_seen_in_a_text_and_not_in_a_docstring(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/known.py").write_text('"""Of torch."""\nFILE = "torch/nn/modules/module.py"\nPATTERN = r"torch[/\\\\]optim"\n')
    (tmp_path / "a/said.py").write_text('"""Of torch/nn."""\n')

    assert _found("a", NAMES, tmp_path) == {"a/known.py"}
    assert len([*filter(FILES.search, _texts((tmp_path / "a/known.py").read_text()))]) == 2


@pytest.mark.parametrize("which", Code)
def test_every_kind_of_code_is_known_of_a_framework_and_used(which):
    assert any(which in words.code for words in all_words().values())
    assert any(f"Code.{which.name}" in path.read_text(encoding="utf-8") for path in (ROOT / "analyses").rglob("*.py"))


@pytest.mark.parametrize("which", Named)
def test_every_kind_of_name_is_known_of_a_framework_and_used(which):
    assert any(which in words.names for words in all_words().values())
    assert any(f"Named.{which.name}" in path.read_text(encoding="utf-8") for path in (ROOT / "analyses").rglob("*.py"))


@pytest.mark.parametrize("which", Event)
def test_every_kind_of_event_is_known_of_a_framework_and_used(which):
    used = [path for room in ("analyses", "diagnosis") for path in (ROOT / room).rglob("*.py")]

    assert any(which in each.patterns for each in all_trace_events().values())
    assert any(f"Event.{which.name}" in path.read_text(encoding="utf-8") for path in used)


def test_events_are_found_by_the_names_of_any_framework():
    assert re.search(events(Event.COMPILATION), "backend_compile")
    assert re.search(events(Event.COMPILATION), "entire_frame_compile")
    assert not re.search(events(Event.COMPILATION), "aten::mm")


@pytest.mark.parametrize(
    ("which", "file", "before"),
    [
        (Code.HOOK_OF_BACKWARD, "backward.py", "hooks/torch_backward.py"),
        (Code.HOOK_OF_REQUEST, "_waits.py", "waits.py"),
        (Code.HOOK_OF_COLLATE, "_fetches.py", "fetches.py"),
    ],
)
def test_hooks_are_known_by_the_files_that_they_have_and_had_wherever_slowstep_lies(which, file, before):
    function = {"backward.py": "backward", "_waits.py": "__next__", "_fetches.py": "collate_fn"}[file]
    now = ROOT / "frameworks/torch/inside" / file

    assert f"def {function}(" in now.read_text(encoding="utf-8")
    assert code(which).search(str(now))
    assert code(which).search(f"C:\\x\\slowstep\\frameworks\\torch\\inside\\{file}")
    assert code(which).search(f"/opt/slowstep/record/{before}")
    assert not code(which).search(f"/home/me/{file}")


def test_where_a_framework_computes_is_known_by_what_it_has_written():
    assert device_of({"cuda_available": True}) == "cuda"
    assert device_of({"cuda_available": False, "threads": 4}) is None
    assert device_of({}) is None


def test_code_of_which_no_framework_has_any_is_found_nowhere(monkeypatch):
    monkeypatch.setattr("slowstep.frameworks._known.all_words", dict)
    code.cache_clear()
    try:
        assert not code(Code.LOADER).search("/usr/lib/python3.12/site-packages/torch/utils/data/dataloader.py")
    finally:
        code.cache_clear()
