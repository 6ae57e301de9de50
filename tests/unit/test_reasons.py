"""Reasons: data by code and value, whose words are made in one place."""

from __future__ import annotations

import ast
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowstep
from slowstep.document.build import verdict_row
from slowstep.findings import Verdict
from slowstep.health import HealthKind
from slowstep.reason_words import sentence
from slowstep.reasons import OF_STAGE, Reason, Wording

FEW = Wording("few-batches", "only {batches:count batch|batches} {batches:plural was|were} seen{where}")
IN_EPOCH = Wording("in-epoch", " in epoch {epoch}, which took {ns:duration}, {share:share} of the time")
IN_STEP = Wording("in-step", "in step {number}")
NUMBERS = Wording("numbers", "{ns:ms} ms, {ratio:.2f}x, {size:bytes}, {n:number}")


def wordings() -> Iterator[tuple[str, Wording]]:
    """All of the package, by the module and name under which they stand, once for each import by one that has its own."""
    root = Path(slowstep.__path__[0])
    for path in sorted(path for path in root.rglob("*.py") if "Wording(" in path.read_text(encoding="utf-8")):
        name = ".".join(("slowstep", *path.relative_to(root).with_suffix("").parts))
        yield from ((f"{name}.{key}", value) for key, value in vars(importlib.import_module(name)).items() if isinstance(value, Wording))


ALL = {id(wording): wording for _, wording in wordings()}.values()
# Who makes a wording of what it is given.
GIVEN = {"health.py": "a kind of loss has one", "parsed_traces.py": "kinds of losses as they were kept"}


def kinds_of_health() -> Iterator[HealthKind]:
    """All of the package: constants, and values of those that are dicts."""
    for package in ("record", "frameworks", "sources", "analyses", "diagnosis", "document", "workflow"):
        for module in pkgutil.walk_packages([str(Path(slowstep.__path__[0], package))], f"slowstep.{package}."):
            found = vars(importlib.import_module(module.name)).values()
            held = (each for value in found if isinstance(value, dict) for each in value.values())
            yield from (each for each in (*found, *held) if isinstance(each, HealthKind))


def test_a_reason_is_its_code_and_values_whatever_its_words() -> None:
    other = Wording("few-batches", "{batches} and no more{where}")

    assert FEW(batches=3, where=None) == other(batches=3, where=None)
    assert FEW(batches=3, where=None) != FEW(batches=4, where=None)
    assert len({FEW(batches=3, where=None), other(where=None, batches=3)}) == 1
    assert pickle.loads(pickle.dumps(FEW(batches=3, where=None))) == FEW(batches=3, where=None)


def test_a_missing_value_and_an_unknown_one_are_errors_at_once() -> None:
    with pytest.raises(TypeError, match="'few-batches' lacks where"):
        FEW(batches=3)
    with pytest.raises(TypeError, match="'few-batches' has no steps"):
        FEW(batches=3, where=None, steps=4)
    with pytest.raises(TypeError, match="'few-batches' needs numbers for batches"):
        FEW(batches=None, where=None)


def test_a_stage_is_written_in_words_and_needs_a_name() -> None:
    largest = Wording("largest", "{share:share} is {stage:stage}")

    assert sentence(largest(share=0.5, stage="gradient_sharing")) == "50 % is gradient sharing"
    with pytest.raises(TypeError, match="'largest' needs numbers for stage, or names"):
        largest(share=0.5, stage=3)


def test_values_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        FEW(batches=3, where=None).values["batches"] = 4  # type: ignore[index]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (FEW(batches=1, where=None), "only 1 batch was seen"),
        (FEW(batches=1200, where=None), "only 1,200 batches were seen"),
        (
            FEW(batches=2, where=IN_EPOCH(epoch=7, ns=2.5e9, share=0.25)),
            "only 2 batches were seen in epoch 7, which took 2.50 s, 25 % of the time",
        ),
        (NUMBERS(ns=1.5e6, ratio=1.2, size=2048, n=0.051), "1.5 ms, 1.20x, 2.00 KiB, 0.0510"),
    ],
)  # fmt: skip
def test_a_sentence_is_made_of_the_template_and_its_values(reason: Reason, said: str) -> None:
    assert sentence(reason) == said


def test_a_reason_holds_its_parts() -> None:
    inner = IN_EPOCH(epoch=7, ns=1.0, share=0.5)
    whole = FEW(batches=2, where=inner)

    assert whole.holds(whole)
    assert whole.holds(inner)
    assert not inner.holds(whole)
    assert whole.of(IN_EPOCH)
    assert not inner.of(FEW)


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict(state="bottleneck", stage="read", healthy=False, rule=None, reason=FEW(batches=1, where=None)), "only 1 batch was seen"),
        (
            Verdict(state="undetermined", stage=None, healthy=None, rule=None, reason=FEW(batches=1, where=None)),
            "undetermined, because only 1 batch was seen",
        ),
        (
            Verdict(state="undetermined", stage=None, healthy=None, rule=None, reason=FEW(batches=1, where=None), scope=IN_STEP(number=5)),
            "undetermined in step 5, because only 1 batch was seen",
        ),
    ],
)  # fmt: skip
def test_a_verdict_says_its_state_only_where_it_is_open(verdict: Verdict, said: str) -> None:
    row = verdict_row(verdict, ())

    assert (row["summary"], row["code"]) == (said, "few-batches")


def test_codes_are_unique() -> None:
    codes = [wording.code for wording in ALL]

    assert len(codes) > 100
    assert [code for code in codes if codes.count(code) > 1] == []
    assert [code for code in codes if not code.replace("-", "").isalnum() or code != code.lower()] == []


def test_every_template_can_be_written_with_its_values() -> None:
    said = {}
    for wording in ALL:
        # What has no way of writing is a name, or another reason.
        of_numbers = {name for name, how in wording.fields if how and how != OF_STAGE}
        said[wording.code] = sentence(wording(**{name: 3 if name in of_numbers else "what it names" for name, _ in wording.fields}))

    assert [code for code, text in said.items() if not text.strip() or set("{}") & set(text)] == []


def test_every_template_of_a_loss_can_be_written_with_its_values() -> None:
    kinds = {id(kind): kind for kind in kinds_of_health()}.values()
    said = {}
    for kind in kinds:
        fields = list(Wording(kind.name, kind.template).fields)
        said[kind.name] = sentence(kind(1, **{name: 3 if how else "what it names" for name, how in fields}).remedy)

    assert len(kinds) > 60
    assert [name for name, text in said.items() if not text.strip() or set("{}") & set(text)] == []


def test_wordings_stand_beside_the_code_that_gives_them_as_constants() -> None:
    """One that is made inside a function would be in no list, and its code might be another's."""
    misplaced = []
    for path in sorted(Path(slowstep.__path__[0]).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name in GIVEN or ("Wording(" not in text and "HealthKind(" not in text):
            continue
        tree = ast.parse(text)
        constants = {id(node) for each in tree.body if isinstance(each, (ast.Assign, ast.AnnAssign)) for node in ast.walk(each)}
        calls = (
            node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Wording", "HealthKind")
        )
        misplaced += [f"{path.name}:{call.lineno}" for call in calls if id(call) not in constants]

    assert misplaced == []
