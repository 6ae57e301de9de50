from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from slowstep import diagnosis
from slowstep.diagnosis import rules as package
from slowstep.diagnosis.gain import REMOVED
from slowstep.diagnosis.law import rules
from slowstep.stages import STAGES

HEADINGS = ["What it sees:", "Why it costs:", "How the gain is predicted:", "When it is wrong:", "What to try:"]
FILES = sorted(f"{path.parent.name}.{path.stem}" for path in Path(package.__path__[0]).glob("*/[!_]*.py"))
CURES = re.compile(r"\b(use|add|set|increase|vectorise|try|should|must|move|fix|instead|persistent_workers)\b|=", re.IGNORECASE)


def _rule(file: str) -> str:
    """What the rule of a file is called, without the folder that it is in."""
    return file.partition(".")[2].replace("_", "-")


@pytest.mark.parametrize("name", FILES)
def test_a_rules_docstring_has_the_five_headings_in_order_and_text_under_each(name):
    text = inspect.cleandoc(importlib.import_module(f"slowstep.diagnosis.rules.{name}").__doc__ or "")

    assert [line for line in text.splitlines() if line in HEADINGS] == HEADINGS
    for heading in HEADINGS:
        below = text.split(heading + "\n", 1)[1].splitlines()[0]
        assert re.match(r"    \S", below)


@pytest.mark.parametrize("name", FILES)
def test_a_rules_first_line_is_a_sentence_that_names_the_problem_and_no_cure(name):
    text = importlib.import_module(f"slowstep.diagnosis.rules.{name}").__doc__ or ""
    first, blank = text.splitlines()[:2]

    assert first.endswith(".")
    assert blank == ""
    assert CURES.findall(first) == []


@pytest.mark.parametrize("name", FILES)
def test_a_rules_name_is_its_files_in_kebab_case(name):
    module = importlib.import_module(f"slowstep.diagnosis.rules.{name}")

    assert module.RULE.name == module.NAME == _rule(name)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", module.NAME)


def test_every_rule_is_found_and_may_blame_known_stages_only():
    found = rules()

    assert sorted(found) == sorted(map(_rule, FILES))
    assert len(found) >= 7
    for rule in found.values():
        assert rule.stages
        assert set(rule.stages) <= set(STAGES)


@pytest.mark.parametrize("path", sorted(Path(diagnosis.__path__[0]).rglob("*.py")), ids=lambda path: path.stem)
def test_what_a_fix_saves_is_written_in_one_place(path):
    """By `saved_by`, of the counterfactual that the gain is predicted from: rules had called by that name what they measured, too."""
    assert (f'"{REMOVED}"' in path.read_text()) is (path.stem == "gain")
