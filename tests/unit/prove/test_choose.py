from __future__ import annotations

from typing import Any

import pytest

from slowstep.document.ledger import part_row
from slowstep.errors import BadUsage
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.prove.choose import (
    ANOTHER_LOADER,
    MOST_CHOSEN,
    NAME_IT,
    NO_LEVER,
    NO_ROOM,
    NO_ROOM_ONE_BY_ONE,
    NO_VALUE,
    NOT_ASKED,
    STEERING,
    choose_all,
    choose_asked,
    choose_named,
    script_names,
)
from slowstep.prove.lever_check import check
from slowstep.record.experiment.implementations import known_levers
from slowstep.record.experiment.lever import Lever, LeverSpec
from slowstep.record.experiment.lever_text import parse_spec


def lever(name: str, **more: Any) -> Lever:
    return Lever(name=name, prepare=lambda training, spec: pytest.fail("no lever is made ready here"), **more)


LEVERS = {
    each.name: each
    for each in (
        lever("checkpoint-off", every=True),
        lever("mock-loader"),
        lever("validation-off", every=True),
        lever("stub", takes="MODULE:FUNCTION", every=True),
        lever("workers", takes="N"),
        lever("callbacks-off", takes="NAME", takes_optional=True, every=True),
    )
}
RUN = {"num_workers": 2, "batch_size": 16, "cores": 4.0, "name": "train", "command": ["python", "train.py", "--config", "data.py"]}


def fix(lever: str | None = None, bounded_by: str | None = None, *, numerics: bool = False) -> dict[str, Any]:
    return {"text": "do it", "lever": lever, "bounded_by": bounded_by, "changes_numerics": numerics}


def finding(rule: str, *fixes: dict[str, Any], claims: tuple[str, ...] = ("part",)) -> dict[str, Any]:
    return {"rule": rule, "claims": list(claims), "fixes": list(fixes)}


def report(*findings: dict[str, Any], parts: dict[Part, float] | None = None) -> dict[str, Any]:
    rows = [part_row(part, share=share, ms_per_step=None) for part, share in (parts or {}).items()]
    return {"run": RUN, "findings": list(findings), "ledger": [{"stage": "output", "parts": rows}]}


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
    assert chosen.arms[0].levers == (LeverSpec(name="stub", value="data:blur"),)


def test_a_lever_that_two_findings_name_is_tried_once_for_the_first():
    chosen = choose_named([finding("storage-wait", fix(None, "mock-loader")), finding("reopened-files", fix(None, "mock-loader"))], LEVERS)

    assert names(chosen) == [("mock-loader", "bound", "storage-wait")]
    assert [(each.rule, each.reason) for each in chosen.untried] == [("reopened-files", NO_LEVER())]


def test_findings_without_a_lever_are_listed_and_advice_is_not():
    chosen = choose_named([finding("double-precision", fix()), finding("idle-cores", fix(), claims=())], LEVERS)

    assert [(each.rule, each.lever, each.reason) for each in chosen.untried] == [("double-precision", None, NO_LEVER())]


def test_a_lever_that_may_change_another_loader_is_to_be_named():
    restarts = finding("worker-restart", fix() | {"lever_in_doubt": "workers=0"})

    chosen = choose_named([restarts], LEVERS)

    assert (chosen.choices, [each.reason for each in chosen.untried]) == (
        (),
        [NAME_IT(lever="workers=0")],
    )


def test_a_lever_that_was_named_all_the_same_may_have_changed_another_loader():
    restarts = finding("worker-restart", fix() | {"lever_in_doubt": "workers=0"})

    chosen = choose_asked([parse_spec("workers=0")], report(restarts), LEVERS)

    assert names(chosen) == [("workers=0", "other", None)]
    assert [each.reason for each in chosen.untried] == [ANOTHER_LOADER(lever="workers=0")]


def test_no_more_levers_are_chosen_than_the_budget_is_for():
    findings = [finding(f"rule-{number}", fix(f"stub=train:f{number}")) for number in range(MOST_CHOSEN + 2)]

    chosen = choose_named(findings, LEVERS)

    assert len(chosen.choices) == MOST_CHOSEN
    assert [(each.lever, each.reason) for each in chosen.untried] == [("stub=train:f6", NO_ROOM()), ("stub=train:f7", NO_ROOM())]


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
    assert [(each.rule, each.reason) for each in chosen.untried] == [("slow-callback", NOT_ASKED())]


def test_of_findings_that_name_no_lever_nobody_asks_for_one():
    chosen = choose_asked([parse_spec("mock-loader")], report(finding("too-few-workers", fix()), finding("slow-start", claims=())), LEVERS)

    assert [(each.rule, each.reason) for each in chosen.untried] == [("too-few-workers", NO_LEVER())]


@pytest.mark.parametrize(
    ("findings", "expected"),
    [((), "workers=4"), ((finding("serial-loader", fix("workers=1")),), "workers=1")],
)
def test_a_value_that_was_left_out_is_the_findings_or_a_usual_one(findings, expected):
    chosen = choose_asked([LeverSpec(name="workers")], report(*findings), LEVERS)

    assert [choice.name for choice in chosen.choices] == [expected]


def test_a_lever_for_one_call_in_k_is_for_the_finding_too():
    chosen = choose_asked([parse_spec("checkpoint-off:every=10")], report(finding("blocking-checkpoint", fix("checkpoint-off"))), LEVERS)

    assert names(chosen) == [("checkpoint-off:every=10", "other", "blocking-checkpoint")]


@pytest.mark.parametrize("role", ["bound", "other"])
def test_a_whole_lever_is_tried_as_it_is_where_a_finding_names_a_part_of_it_and_bounds_that_fix(role):
    named = "validation-off:every=2"
    found = report(finding("frequent-validation", fix(named) if role == "bound" else fix(), fix(None if role == "bound" else named)))

    chosen = choose_asked([parse_spec("validation-off")], found, LEVERS)

    assert names(chosen) == [("validation-off", role, "frequent-validation")]
    assert chosen.untried == ()


def test_all_levers_are_tried_as_the_findings_name_them():
    found = report(finding("frequent-validation", fix("validation-off:every=2")), finding("too-few-workers", fix("workers=8")))

    chosen = choose_all(found, LEVERS)

    assert names(chosen) == [
        ("checkpoint-off", "other", None),
        ("mock-loader", "other", None),
        ("validation-off:every=2", "fix", "frequent-validation"),
        ("workers=8", "fix", "too-few-workers"),
        ("callbacks-off", "other", None),
    ]


def test_all_are_tried_but_those_that_nobody_can_give_a_value():
    chosen = choose_all(report(), LEVERS)

    assert [choice.name for choice in chosen.choices] == ["checkpoint-off", "mock-loader", "validation-off", "workers=4", "callbacks-off"]
    assert [(each.lever, each.reason) for each in chosen.untried] == [("stub", NO_VALUE())]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "werkers=4",
            r"no lever is called 'werkers'\. Did you mean workers\? There are checkpoint-off, mock-loader, validation-off, stub, workers",
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
        ("workers=x", r"^lever workers=x: it takes a whole number of at least 0, not 'x'\. See"),
        ("workers=-1", "a whole number of at least 0"),
        ("prefetch=0", "a whole number of at least 1"),
        ("batch-size=big", "a whole number of at least 1"),
        ("batch-size=2x", "not '2x'; for twice your own give that size, such as batch-size=32 for 16"),
        ("threads=0", "^lever threads=0: give a number of threads"),
        ("autocast=fp8", "^lever autocast=fp8: it is autocast=bf16, or autocast=fp16"),
        ("stub=plot", "'plot' is no MODULE:FUNCTION"),
        ("stub=train:plot=train:draw", "^lever stub=train:plot=train:draw: it takes one MODULE:FUNCTION"),
        ("swap=train:plot", r"lever swap=train:plot: the second function is missing: it takes MODULE:F=MODULE:G\. See"),
        ("swap=train:plot=", "the second function is missing"),
        ("swap=train:plot=draw", "'draw' is no MODULE:FUNCTION"),
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
    check(LeverSpec(name="workers"), LEVERS, filled_in=frozenset({"workers"}))


def test_the_levers_of_the_package_are_known():
    levers = known_levers()

    assert "mock-loader" in levers
    assert all(str(LeverSpec(name=name)) == name for name in levers)


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
    # One that is to be called more seldom: an alternative to that.
    assert chosen("swap=train:plot=train:fast") == [("swap=train:plot=train:fast", "other", "slow-callback")]
    # Another function's code.
    assert chosen("swap=data:crop=data:fast") == [("swap=data:crop=data:fast", "other", None)]


@pytest.mark.parametrize("name", ["train", "__main__"])
def test_a_function_of_the_scripts_is_the_findings_by_whichever_name(name):
    found = report(finding("slow-callback", fix("stub=__main__:plot")), finding("slow-transform", fix(bounded_by="stub=__main__:blur")))
    levers = LEVERS | {"swap": lever("swap", takes="MODULE:F=MODULE:G")}
    asked = (
        f"stub={name}:plot",
        f"stub={name}:plot:every=4",
        f"swap={name}:blur={name}:fast",
        f"swap={name}:plot=data:plot",
        "stub=data:plot",
    )

    chosen = choose_asked([parse_spec(text) for text in asked], found, levers)

    # Named as the user names them.
    assert names(chosen) == [
        (asked[0], "fix", "slow-callback"),
        (asked[1], "other", "slow-callback"),
        (asked[2], "fix", "slow-transform"),
        (asked[3], "other", "slow-callback"),
        (asked[4], "other", None),
    ]
    assert chosen.untried == ()


def test_one_function_that_is_asked_for_by_two_names_is_one_lever():
    chosen = choose_asked([parse_spec("stub=train:plot"), parse_spec("stub=__main__:plot")], report(), LEVERS)

    assert len(chosen.choices) == 1


@pytest.mark.parametrize(
    ("command", "mains"),
    [
        (["python", "-m", "pkg.train", "--fast"], {"tool", "pkg.train", "train"}),
        (["python", "-m", "pkg.__main__"], {"tool", "pkg.__main__", "pkg"}),
        (["python", "tool.py"], {"tool"}),
    ],
)
def test_a_script_goes_by_its_files_name_and_by_that_of_its_module(command, mains):
    assert script_names({"name": "tool", "command": command}) == mains


CALLBACKS = {
    Part("output", PartKind.CALLBACK, "Plot.on_train_batch_end", CodePlace("train.py", 9)): 0.2,
    Part("output", PartKind.CALLBACK, "Count.on_train_batch_end", CodePlace("train.py", 12)): 0.1,
    Part("output", PartKind.CALLBACK, "Count.on_train_batch_start", CodePlace("train.py", 14)): 0.15,
    Part("output", PartKind.PROGRESS_BAR, "RichProgressBar.on_train_batch_end"): 0.01,
    Part("output", PartKind.CALLBACK, "EarlyStopping.on_train_epoch_end"): 0.01,
    Part("output", PartKind.SMALL_CALLBACKS): 0.3,
    Part("store", PartKind.SAVE, "torch.save"): 0.4,
}


@pytest.mark.parametrize("every", ["", ":every=4"])
def test_callbacks_off_is_one_arm_for_each_callback_that_was_seen(every):
    found = report(finding("slow-callback", fix("callbacks-off=Plot")), parts=CALLBACKS)

    chosen = choose_asked([parse_spec(f"callbacks-off{every}")], found, LEVERS)

    role = "other" if every else "fix"
    assert names(chosen) == [
        (f"callbacks-off=Count{every}", "other", None),
        (f"callbacks-off=Plot{every}", role, "slow-callback"),
        (f"callbacks-off=RichProgressBar{every}", "other", None),
    ]
    assert [(each.lever, each.reason) for each in chosen.untried] == [("callbacks-off=EarlyStopping", STEERING())]


def test_callbacks_beyond_those_that_take_most_time_are_listed_as_untried():
    callbacks = (Part("output", PartKind.CALLBACK, f"C{number}.on_train_batch_end") for number in range(MOST_CHOSEN + 1))
    parts = {part: 0.1 / (number + 1) for number, part in enumerate(callbacks)}

    chosen = choose_asked([parse_spec("callbacks-off")], report(parts=parts), LEVERS)

    assert [choice.name for choice in chosen.choices] == [f"callbacks-off=C{number}" for number in range(MOST_CHOSEN)]
    assert [(each.lever, each.reason) for each in chosen.untried] == [("callbacks-off=C6", NO_ROOM_ONE_BY_ONE())]


def test_without_a_callback_that_was_seen_and_with_a_name_it_is_as_it_was_asked_for():
    for text, parts in (("callbacks-off", None), ("callbacks-off=Other", CALLBACKS)):
        chosen = choose_asked([parse_spec(text)], report(parts=parts), LEVERS)

        assert [choice.name for choice in chosen.choices] == [text]
