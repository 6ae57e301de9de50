from __future__ import annotations

from typing import Any

import pytest

from slowstep.errors import BadUsage
from slowstep.experiments.choose import MOST_CHOSEN, NO_LEVER, NO_ROOM, NO_VALUE, NOT_ASKED, choose_all, choose_asked, choose_named
from slowstep.experiments.known_levers import check, known_levers
from slowstep.experiments.plan import parse_spec, spec_text
from slowstep.record.lever import Lever, Spec


def lever(name: str, **more: Any) -> Lever:
    return Lever(name=name, prepare=lambda training, spec: pytest.fail("no lever is made ready here"), **more)


LEVERS = {
    each.name: each
    for each in (
        lever("checkpoint-off", every=True),
        lever("mock-loader"),
        lever("stub", takes="MODULE:FUNCTION", every=True),
        lever("workers", takes="N"),
        lever("callbacks-off", takes="NAME", takes_optional=True),
    )
}
RUN = {"num_workers": 2, "batch_size": 16, "cores": 4.0}


def fix(lever: str | None = None, bounded_by: str | None = None, *, numerics: bool = False) -> dict[str, Any]:
    return {"text": "do it", "lever": lever, "bounded_by": bounded_by, "changes_numerics": numerics}


def finding(rule: str, *fixes: dict[str, Any], claims: tuple[str, ...] = ("part",)) -> dict[str, Any]:
    return {"rule": rule, "claims": list(claims), "fixes": list(fixes)}


def report(*findings: dict[str, Any]) -> dict[str, Any]:
    return {"run": RUN, "findings": list(findings)}


def names(chosen: Any) -> list[tuple[str, str, str | None]]:
    return [(choice.name, choice.role, choice.rule) for choice in chosen.choices]


def test_without_findings_nothing_is_chosen():
    chosen = choose_named([], LEVERS)

    assert (chosen.choices, chosen.untried, chosen.arms) == ((), (), ())


def test_first_fixes_come_before_bounds_and_these_before_other_fixes():
    findings = [
        finding("slow-transform", fix("stub=data:blur", "mock-loader"), fix("callbacks-off")),
        finding("blocking-checkpoint", fix("checkpoint-off")),
    ]

    chosen = choose_named(findings, LEVERS)

    assert names(chosen) == [
        ("stub=data:blur", "fix", "slow-transform"),
        ("checkpoint-off", "fix", "blocking-checkpoint"),
        ("mock-loader", "bound", "slow-transform"),
        ("callbacks-off", "other", "slow-transform"),
    ]
    assert [arm.name for arm in chosen.arms] == [choice.name for choice in chosen.choices]
    assert chosen.arms[0].levers == (Spec(name="stub", value="data:blur"),)


def test_a_lever_that_two_findings_name_is_tried_once_for_the_first():
    chosen = choose_named([finding("storage-wait", fix(None, "mock-loader")), finding("reopened-files", fix(None, "mock-loader"))], LEVERS)

    assert names(chosen) == [("mock-loader", "bound", "storage-wait")]
    assert [(each.rule, each.reason) for each in chosen.untried] == [("reopened-files", NO_LEVER)]


def test_findings_without_a_lever_are_listed_and_advice_is_not():
    chosen = choose_named([finding("double-precision", fix()), finding("idle-cores", fix(), claims=())], LEVERS)

    assert [(each.rule, each.lever, each.reason) for each in chosen.untried] == [("double-precision", None, NO_LEVER)]


def test_no_more_levers_are_chosen_than_the_budget_is_for():
    findings = [finding(f"rule-{number}", fix(f"stub=train:f{number}")) for number in range(MOST_CHOSEN + 2)]

    chosen = choose_named(findings, LEVERS)

    assert len(chosen.choices) == MOST_CHOSEN
    assert [(each.lever, each.reason) for each in chosen.untried] == [("stub=train:f6", NO_ROOM), ("stub=train:f7", NO_ROOM)]


def test_a_fix_that_changes_numerics_is_offered_and_marked_but_its_bound_is_not():
    chosen = choose_named([finding("small-batch", fix("workers=4", "mock-loader", numerics=True))], LEVERS)

    assert [(choice.name, choice.changes_numerics) for choice in chosen.choices] == [("workers=4", True), ("mock-loader", False)]


def test_levers_that_were_asked_for_know_the_findings_that_name_them():
    named = report(finding("too-few-workers", fix("workers=4")), finding("slow-callback", fix("stub=train:plot")))

    chosen = choose_asked([parse_spec(text) for text in ("workers=4", "workers=8", "stub=train:other", "mock-loader")], named, LEVERS)

    assert names(chosen) == [
        ("workers=4", "fix", "too-few-workers"),
        ("workers=8", "other", "too-few-workers"),
        ("stub=train:other", "other", None),
        ("mock-loader", "other", None),
    ]
    assert [(each.rule, each.reason) for each in chosen.untried] == [("slow-callback", NOT_ASKED)]


@pytest.mark.parametrize(
    ("findings", "expected"),
    [((), "workers=4"), ((finding("serial-loader", fix("workers=1")),), "workers=1")],
)
def test_a_value_that_was_left_out_is_the_findings_or_a_usual_one(findings, expected):
    chosen = choose_asked([Spec(name="workers")], report(*findings), LEVERS)

    assert [choice.name for choice in chosen.choices] == [expected]


def test_a_lever_for_one_call_in_k_is_for_the_finding_too():
    chosen = choose_asked([parse_spec("checkpoint-off:every=10")], report(finding("blocking-checkpoint", fix("checkpoint-off"))), LEVERS)

    assert names(chosen) == [("checkpoint-off:every=10", "other", "blocking-checkpoint")]


def test_all_are_tried_but_those_that_nobody_can_give_a_value():
    chosen = choose_all(report(), LEVERS)

    assert [choice.name for choice in chosen.choices] == ["checkpoint-off", "mock-loader", "workers=4", "callbacks-off"]
    assert [(each.lever, each.reason) for each in chosen.untried] == [("stub", NO_VALUE)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "werkers=4",
            r"No lever is called 'werkers'\. Did you mean workers\? There are checkpoint-off, mock-loader, stub, workers, callbacks",
        ),
        ("stub", "needs a value: stub=MODULE:FUNCTION"),
        ("mock-loader=3", "mock-loader takes no value, and '3' was given"),
        ("workers=4:every=3", "workers is on or off: every=3 means nothing to it"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_starts(text, complaint):
    with pytest.raises(BadUsage, match=complaint):
        check(parse_spec(text), LEVERS)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("workers=x", "workers=x: workers=N takes a whole number of at least 0, not 'x'"),
        ("workers=-1", "a whole number of at least 0"),
        ("prefetch=0", "a whole number of at least 1"),
        ("batch-size=big", "a whole number of at least 1"),
        ("threads=0", "give a number of threads"),
        ("autocast=fp8", "autocast=bf16, or autocast=fp16"),
        ("stub=plot", "'plot' is no MODULE:FUNCTION"),
        ("stub=train:plot=train:draw", "stub takes one MODULE:FUNCTION"),
        ("swap=train:plot", "'' is no MODULE:FUNCTION"),
        ("swap=train:plot=train:plot", "one function twice"),
    ],
)
def test_a_value_that_cannot_be_meant_is_said_before_anything_starts(text, complaint):
    with pytest.raises(BadUsage, match=complaint):
        check(parse_spec(text), known_levers())


@pytest.mark.parametrize("text", ["workers=0", "prefetch=4", "threads=2", "autocast", "autocast=fp16", "stub=m:C.f", "swap=m:f=m:g"])
def test_a_value_that_can_be_meant_is_taken(text):
    check(parse_spec(text), known_levers())


def test_values_that_will_be_filled_in_may_be_left_out():
    check(Spec(name="workers"), LEVERS, filled_in=frozenset({"workers"}))


def test_the_levers_of_the_package_are_known():
    levers = known_levers()

    assert "mock-loader" in levers
    assert all(spec_text(Spec(name=name)) == name for name in levers)


def test_where_findings_name_nothing_what_would_tell_is_tried():
    unjudged = [
        {"rule": "small-batch", "reason": "all steps had the same size", "advisory": False, "lever": "workers=8"},
        {"rule": "memory-growth", "reason": "too short", "advisory": True, "lever": "mock-loader"},
        {"rule": "slow-transform", "reason": "no calls were timed", "advisory": False},
    ]

    alone = choose_named([], LEVERS, unjudged)
    beside = choose_named([finding("blocking-checkpoint", fix("checkpoint-off"))], LEVERS, unjudged)

    assert [choice.name for choice in alone.choices] == ["workers=8"]
    assert [choice.name for choice in beside.choices] == ["checkpoint-off"]


def test_code_in_place_of_a_function_that_only_a_bound_was_known_of_is_the_fix():
    found = report(finding("slow-transform", fix(bounded_by="stub=data:blur")), finding("slow-callback", fix("stub=train:plot")))

    def chosen(text: str) -> list[tuple[str, str, str | None]]:
        return names(choose_asked([parse_spec(text)], found, LEVERS | {"swap": lever("swap", takes="MODULE:F=MODULE:G")}))

    assert chosen("swap=data:blur=data:fast") == [("swap=data:blur=data:fast", "fix", "slow-transform")]
    # Another function's code, and that of one which is to be called more seldom.
    for text in ("swap=data:crop=data:fast", "swap=train:plot=train:fast"):
        assert chosen(text) == [(text, "other", None)]
