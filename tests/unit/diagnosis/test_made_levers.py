"""Which levers are advised: those that a framework in this training makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from made_measurements import measurements
from slowstep.diagnosis.made_levers import is_made, with_made_levers
from slowstep.diagnosis.rule import Judged
from slowstep.findings import Evidence, Finding, Fix, Gain, NotJudged
from slowstep.frameworks._known import all_words
from slowstep.reasons import Wording

TORCH = {"framework": "torch"}
UNKNOWN = {"framework": None}


def training(words: str, *, updates: str = "", computes: str = "", loader: dict[str, Any] | None = None) -> Any:
    facts = replace(measurements().trainer.facts, framework=updates or words)
    fed = {"input": {"loader": loader}} if loader else {}
    own = all_words()[words].computed_by(all_words().get(computes))
    return measurements(words=own, workers=None if loader is None else 0, trainer={"facts": facts}, **fed)


@pytest.mark.parametrize(
    ("lever", "m", "made"),
    [
        ("threads=1", ("torch", {}), True),
        ("threads=1", ("lightning", {"updates": "torch"}), True),
        ("threads=1", ("tensorflow", {}), False),
        ("threads=1", ("jax", {"loader": TORCH}), False),
        ("callbacks-off", ("keras", {}), True),
        ("callbacks-off", ("lightning", {"updates": "torch"}), True),
        ("callbacks-off", ("torch", {}), False),
        ("callbacks-off", ("keras", {"computes": "jax"}), True),
        ("steps-per-execution=16", ("keras", {"computes": "tensorflow"}), True),
        ("steps-per-execution=16", ("keras", {"computes": "jax"}), False),
        ("run-eagerly-off", ("keras", {"computes": "torch"}), False),
        ("mock-loader", ("keras", {"updates": "tensorflow"}), True),
        ("mock-loader", ("tensorflow", {}), False),
        ("parallel-calls", ("keras", {"updates": "tensorflow"}), True),
        ("parallel-calls", ("torch", {"loader": TORCH}), False),
        ("stub=train:plot:every=50", ("tensorflow", {}), True),
        ("workers=2", ("jax", {}), False),
        ("workers=2", ("jax", {"loader": TORCH}), True),
        ("workers=2", ("jax", {"loader": UNKNOWN}), True),
        ("workers=2", ("jax", {"loader": {"is_marked": True}}), False),
        ("no-such-lever", ("torch", {}), False),
    ],
)
def test_a_lever_is_made_by_what_trains_by_whose_loader_feeds_it_or_by_python(lever, m, made):
    words, more = m

    assert is_made(training(words, **more), lever) is made


def test_of_an_answer_the_levers_are_left_out_that_change_nothing():
    m = training("tensorflow")
    fixes = (
        Fix(text="a", lever="batch-size=8", bounded_by="stub=train:plot"),
        Fix(text="b", bounded_by="mock-loader", lever_in_doubt="workers=1"),
    )
    evidence, gain = Evidence(name="share", value=1.0, unit=""), Gain(predicted=None, low=None, high=None, assumes="")
    of = {"rule": "r", "stage": "read", "title": "t", "share": 0.5, "share_low": 0.5, "share_high": 0.5, "claims": ()}
    found = Judged(finding=Finding(**of, evidence=(evidence,), gain=gain, fixes=fixes), counterfactual=None)
    skipped = NotJudged(rule="r", reason=Wording("dark", "it is dark")(), lever="prefetch=4")

    kept, open_one = with_made_levers(m, found), with_made_levers(m, skipped)

    assert isinstance(kept, Judged)
    assert [(fix.lever, fix.bounded_by, fix.lever_in_doubt) for fix in kept.finding.fixes] == [(None, "stub=train:plot", None), (None,) * 3]
    assert isinstance(open_one, NotJudged)
    assert open_one.lever is None
    assert with_made_levers(m, None) is None
