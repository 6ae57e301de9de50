"""The levers that findings name: they do what the fix would do, with its numbers, and exist."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from judged import finding
from made_measurements import DATA, MS, SCRIPT, changed, every, fed, measurements, per_step
from made_parts import function_part
from slowstep.analyses.over_time.event_name import EventName
from slowstep.analyses.over_time.over_time import OccasionalEvent
from slowstep.analyses.python.calls import TimedFunction
from slowstep.diagnosis import lever_specs
from slowstep.parts import BACKWARD, VALIDATION, Part, PartKind
from slowstep.record.experiment.implementations import known_levers
from slowstep.record.experiment.lever_text import parse_spec

Measured = dict[str, Any]
CALLBACK, SAVE = function_part("output", "save_mask_images", "train.py", 80), Part("store", PartKind.SAVE, "torch.save")


def levers_of(rule: str, **measured: Any) -> list[tuple[str | None, str | None]]:
    """What the fixes of a rule's finding are done by, and bounded by."""
    return [(fix.lever, fix.bounded_by) for fix in finding(rule, measurements(**measured)).fixes]


def collates(name: str, *, by_torch: bool = False, inner: float = 0.0) -> Measured:
    """Batches of which most is made in a collate function, and so much of that in another one which it calls."""
    function = TimedFunction(name="mask_tokens", file=DATA, line=90, share=inner, path=("mask_tokens",)) if inner else None
    loader = {"collate": name, "collate_is_default": by_torch}
    return {**fed(1, cpu_ms=32.5, loader=loader, demand={"collate_ns": 26 * MS}), "collate_function": function}


def transforms(workers: int, **more: Any) -> Measured:
    function = TimedFunction(name="darken", file=DATA, line=40, share=0.9, path=("__getitem__", "darken"))
    return fed(workers, fetch_function=function, **more)


@pytest.mark.parametrize(
    ("rule", "measured"),
    [("serial-loader", fed(0, cpu_ms=10.0)), ("too-few-workers", fed(1, cpu_ms=6.5, blocked_ms=24.0, storage=True))],
)
def test_a_lever_has_the_number_of_workers_that_the_fix_proposes(rule, measured):
    fix = finding(rule, measurements(**measured)).fixes[0]

    proposed = re.search(r"num_workers=(\d+)", fix.text)
    assert proposed is not None
    assert fix.lever == f"workers={proposed[1]}"


@pytest.mark.parametrize(("sure", "named"), [(None, True), (True, True), (False, False)])
def test_a_lever_of_one_loader_is_named_where_the_training_surely_waits_for_that_one(sure, named):
    m: Any = SimpleNamespace(
        input=SimpleNamespace(
            loader=None if sure is None else SimpleNamespace(is_surely_most_waited_for=sure, is_marked=False, framework=None, divides=None)
        )
    )

    assert lever_specs.of_its_loader(m, "workers=2") == ("workers=2" if named else None)


@pytest.mark.parametrize(("sure", "lever", "in_doubt"), [(True, "workers=2", None), (False, None, "workers=2")])
def test_a_lever_that_may_change_another_loader_than_the_findings_is_in_doubt(sure, lever, in_doubt):
    m: Any = SimpleNamespace(
        input=SimpleNamespace(loader=SimpleNamespace(is_surely_most_waited_for=sure, is_marked=False, framework=None, divides=None))
    )

    fix = lever_specs.fix_of_its_loader(m, "two workers", "workers=2", bounded_by="mock-loader")

    assert (fix.text, fix.lever, fix.lever_in_doubt, fix.bounded_by) == ("two workers", lever, in_doubt, "mock-loader")


@pytest.mark.parametrize(("framework", "is_made"), [(None, True), ("torch", True), ("tensorflow", False), ("keras", False)])
@pytest.mark.parametrize("sure", [True, False])
def test_a_lever_of_a_loader_is_named_where_the_framework_makes_it_whose_loader_it_is(framework, is_made, sure):
    loader = SimpleNamespace(is_surely_most_waited_for=sure, is_marked=False, framework=framework, divides=None)
    m: Any = SimpleNamespace(input=SimpleNamespace(loader=loader))

    fix = lever_specs.fix_of_its_loader(m, "two workers", "workers=2")

    assert (fix.lever or fix.lever_in_doubt) == ("workers=2" if is_made else None)
    assert lever_specs.mock_loader(m) == ("mock-loader" if is_made else None)


def test_a_lever_has_the_batch_size_that_the_fix_proposes():
    cost = {"value_ns": 15 * MS, "likely_ns": 15 * MS, "low_ns": 14 * MS, "high_ns": 16 * MS, "step_ns": 19.5 * MS, "samples": 4.0}

    fix = finding("small-batch", measurements(fixed_cost=cost, samples=4.0)).fixes[0]

    proposed = re.search(r"batch size (\d+) instead", fix.text)
    assert proposed is not None
    assert fix.lever == f"batch-size={proposed[1]}"
    assert fix.changes_numerics


def test_a_slow_function_after_the_update_is_stubbed_by_the_name_under_which_it_is_imported():
    measured = {"ledger": {CALLBACK: 10.0}, "stacks": {CALLBACK: 100}, "files": {(CALLBACK.name, CALLBACK.place): SCRIPT}}

    assert levers_of("slow-callback", **measured) == [("stub=__main__:save_mask_images", None), (None, None)]


def test_a_slow_transform_is_bounded_by_its_stub_where_it_is_defined():
    assert levers_of("slow-transform", **transforms(4, cpu_ms=90.0)) == [(None, "stub=data:darken")] * 2


def test_workers_that_hide_a_part_of_a_slow_transform_are_tried_beside_its_stub():
    # Of two cores one is idle while the training thread makes its own batches.
    levers = levers_of("slow-transform", **transforms(0, cpu_ms=70.0, cores=2.0))

    assert levers == [(None, "stub=data:darken"), ("workers=2", None), (None, "stub=data:darken")]


@pytest.mark.parametrize(
    ("measured", "bounds"),
    [
        (collates("data.pad_slowly"), ["stub=data:pad_slowly"]),
        # Masking is what such a collate function is for: to only stack tensors was no advice.
        (collates("data.pad_slowly", inner=0.8), ["stub=data:mask_tokens"] * 2),
        (collates("default_collate", by_torch=True), ["mock-loader"]),
        (collates("somewhere.else.pad_slowly"), ["mock-loader"]),
    ],
    ids=["the script's own", "that calls what takes most of it", "torch's own", "that cannot be named"],
)
def test_a_slow_collate_is_bounded_by_the_stub_of_what_can_be_made_faster(measured, bounds):
    assert levers_of("slow-collate", **measured) == [(None, bound) for bound in bounds]


def test_every_second_validation_is_left_out_as_the_fix_proposes():
    event = OccasionalEvent(
        name=EventName.VALIDATION, known=True, part=VALIDATION, every_steps=10.0, count=20, ns=per_step(every(10, 120.0))
    )

    levers = levers_of("frequent-validation", ledger={VALIDATION: every(10, 120.0)}, over_time={"events": (event,)})

    assert levers == [("validation-off:every=2", None), (None, None)]


def test_checkpoints_are_left_out():
    assert levers_of("blocking-checkpoint", ledger={SAVE: every(5, 40.0)})[0] == ("checkpoint-off", None)


def test_a_function_that_writes_them_is_left_out_as_a_whole():
    function = replace(function_part("store", "save_all", "train.py", 80), kind=PartKind.SAVING_FUNCTION)
    measured = {"ledger": {SAVE: every(5, 40.0), function: every(5, 20.0)}, "files": {(function.name, function.place): SCRIPT}}

    assert levers_of("blocking-checkpoint", **measured)[0] == ("stub=__main__:save_all", None)


@pytest.mark.parametrize(("within", "lever"), [(0.95, "stub=__main__:save_all"), (0.8, "checkpoint-off")], ids=["nearly all", "most of it"])
def test_only_a_function_within_which_nearly_all_is_written_is_left_out(within, lever):
    function = replace(function_part("store", "save_all", "train.py", 80), kind=PartKind.SAVING_FUNCTION)
    ledger = {SAVE: every(5, 40.0), function: every(5, 20.0)}
    m = measurements(ledger=ledger, files={(function.name, function.place): SCRIPT})

    found = finding("blocking-checkpoint", changed(m, ledger={"written_within": {function: within}}))

    assert found.fixes[0].lever == lever


def test_workers_that_are_started_anew_are_kept():
    starts = {"count": 20, "with_workers": 20, "used_up": 20, "batches_each": 10.0, "start_ns": per_step(every(10, 100.0))}

    levers = levers_of(
        "worker-restart", workers=2, ledger={Part("preprocess", PartKind.LOADER_START): every(10, 100.0)}, over_time={"restarts": starts}
    )

    assert levers[0] == ("persistent-workers", None)


def test_data_from_storage_are_read_ahead_and_bounded_by_a_mocked_input():
    levers = levers_of("storage-wait", **fed(24, cpu_ms=10.5, blocked_ms=600.0, storage=True))

    assert levers == [("warm-cache", "mock-loader"), (None, "mock-loader")]


def test_advice_names_a_lever_too():
    levers = levers_of("idle-cores", cores=8.0, machine={"threads": 1}, ledger={BACKWARD: 60.0})

    assert levers == [("threads=2", None)]


def _specs() -> list[str]:
    made = {"workers": 2, "batch_size": 8, "threads": 4}
    constants = [value for name, value in vars(lever_specs).items() if name.isupper()]
    return [*constants, *(getattr(lever_specs, name)(number) for name, number in made.items()), "stub=train:plot"]


@pytest.mark.parametrize("text", _specs())
def test_every_lever_that_rules_can_name_exists(text):
    spec = parse_spec(text)

    lever = known_levers()[spec.name]
    assert (lever.takes is not None) or spec.value is None


@pytest.mark.parametrize("text", ["stub=train:plot", "checkpoint-off", "validation-off"])
def test_what_rules_want_to_be_done_once_in_k_times_can_be(text):
    every = parse_spec(lever_specs.seldom(text, 50) or "")

    assert every.every == 50
    assert known_levers()[every.name].every


def test_rules_spell_no_lever_themselves():
    rules = Path(lever_specs.__file__).parent / "rules"

    spelled = [path.name for path in sorted(rules.rglob("*.py")) if re.search(r"(lever|bounded_by)=f?[\"']", path.read_text())]
    assert spelled == []
