"""The levers that findings name: they do what the fix would do, with its numbers, and exist."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from made_recordings import Training, make_recording
from slowstep.diagnosis import lever_specs
from slowstep.experiments.known_levers import known_levers
from slowstep.experiments.plan import parse_spec
from slowstep.workflow.diagnose import diagnose_recording


def findings(folder: Path, **training: Any) -> dict[str, Any]:
    report = diagnose_recording(make_recording(folder, Training(**training)))
    return {row["rule"]: row["fixes"] for row in report["findings"]}


def levers_of(fixes: list[dict[str, Any]]) -> list[tuple[str | None, str | None]]:
    return [(fix["lever"], fix["bounded_by"]) for fix in fixes]


@pytest.mark.parametrize(
    ("rule", "training"),
    [("serial-loader", {"workers": 0, "getitem_ms": 10}), ("too-few-workers", {"blocked_ms": 24, "storage": True})],
)
def test_a_lever_has_the_number_of_workers_that_the_fix_proposes(tmp_path, rule, training):
    (fix,) = findings(tmp_path / "r", **training)[rule]

    proposed = re.search(r"num_workers=(\d+)", fix["text"])
    assert proposed is not None
    assert fix["lever"] == f"workers={proposed[1]}"


@pytest.mark.parametrize(("sure", "named"), [(None, True), (True, True), (False, False)])
def test_a_lever_of_one_loader_is_named_where_the_training_surely_waits_for_that_one(sure, named):
    m: Any = SimpleNamespace(loader=None if sure is None else SimpleNamespace(is_surely_most_waited_for=sure))

    assert lever_specs.of_its_loader(m, "workers=2") == ("workers=2" if named else None)


@pytest.mark.parametrize(("sure", "lever", "in_doubt"), [(True, "workers=2", None), (False, None, "workers=2")])
def test_a_lever_that_may_change_another_loader_than_the_findings_is_in_doubt(sure, lever, in_doubt):
    m: Any = SimpleNamespace(loader=SimpleNamespace(is_surely_most_waited_for=sure))

    fix = lever_specs.fix_of_its_loader(m, "two workers", "workers=2", bounded_by="mock-loader")

    assert (fix.text, fix.lever, fix.lever_in_doubt, fix.bounded_by) == ("two workers", lever, in_doubt, "mock-loader")


def test_a_lever_has_the_batch_size_that_the_fix_proposes(tmp_path):
    fix = findings(tmp_path / "r", batch_size=4, fixed_ms=20, per_sample_ms=0.2, last_batch=1)["small-batch"][0]

    proposed = re.search(r"batch size (\d+) instead", fix["text"])
    assert proposed is not None
    assert fix["lever"] == f"batch-size={proposed[1]}"
    assert fix["changes_numerics"]


def test_a_slow_function_after_the_update_is_stubbed_by_the_name_under_which_it_is_imported(tmp_path):
    assert levers_of(findings(tmp_path / "r", after_ms=10)["slow-callback"]) == [("stub=__main__:save_mask_images", None), (None, None)]


def test_a_slow_transform_is_bounded_by_its_stub_where_it_is_defined(tmp_path):
    fixes = findings(tmp_path / "r", workers=4, getitem_ms=90, cores=4, transform=("darken", 0.9))["slow-transform"]

    assert levers_of(fixes) == [(None, "stub=data:darken")] * 2


def test_workers_that_hide_a_part_of_a_slow_transform_are_tried_beside_its_stub(tmp_path):
    # Of two cores one is idle while the training thread makes its own batches.
    fixes = findings(tmp_path / "r", workers=0, getitem_ms=70, cores=2, transform=("darken", 0.9))["slow-transform"]

    assert levers_of(fixes) == [(None, "stub=data:darken"), ("workers=2", None), (None, "stub=data:darken")]


def test_a_slow_collate_is_bounded_by_its_stub(tmp_path):
    (fix,) = findings(tmp_path / "r", collate_ms=26, collate="data.pad_slowly")["slow-collate"]

    assert levers_of([fix]) == [(None, "stub=data:pad_slowly")]


@pytest.mark.parametrize(
    ("share", "fixes"),
    [
        (0.8, {"vectorise mask_tokens": "stub=data:mask_tokens", "do mask_tokens once before": "stub=data:mask_tokens"}),
        (0.4, {"let data.pad_slowly only stack tensors": "stub=data:pad_slowly"}),
    ],
    ids=["most of it", "less"],
)
def test_of_a_slow_collate_that_calls_what_takes_most_of_it_that_function_is_to_be_made_faster(tmp_path, share, fixes):
    """Masking is what such a collate function is for: to only stack tensors was no advice."""
    found = findings(tmp_path / "r", collate_ms=26, collate="data.pad_slowly", collate_inner=share)["slow-collate"]

    assert levers_of(found) == [(None, bound) for bound in fixes.values()]
    assert all(fix["text"].startswith(text) for fix, text in zip(found, fixes, strict=True))


def test_torchs_own_collate_function_is_neither_stubbed_nor_advised_against_itself(tmp_path):
    (fix,) = findings(tmp_path / "r", collate_ms=26)["slow-collate"]

    assert levers_of([fix]) == [(None, "mock-loader")]
    assert "default collate" not in fix["text"]


def test_a_collate_function_that_cannot_be_named_is_bounded_by_a_mocked_input(tmp_path):
    (fix,) = findings(tmp_path / "r", collate_ms=26, collate="somewhere.else.pad_slowly")["slow-collate"]

    assert levers_of([fix]) == [(None, "mock-loader")]


def test_every_second_validation_is_left_out_as_the_fix_proposes(tmp_path):
    fixes = findings(tmp_path / "r", validation=(10, 120), epoch_steps=200)["frequent-validation"]

    assert levers_of(fixes) == [("validation-off:every=2", None), (None, None)]


def test_checkpoints_are_left_out(tmp_path):
    fixes = findings(tmp_path / "r", saves=(5, 40))["blocking-checkpoint"]

    assert levers_of(fixes)[0] == ("checkpoint-off", None)


def test_what_grows_is_bounded_by_what_leaves_out_all_of_it(tmp_path):
    grown = findings(tmp_path / "function", after_ms=1, after_growth_ms=20, after_writes=True, getitem_ms=2)["growing-file"]

    assert levers_of(grown)[0] == (None, "stub=__main__:save_mask_images")


def test_workers_that_are_started_anew_are_kept(tmp_path):
    fixes = findings(tmp_path / "r", start_ms=100, epoch_steps=10, workers=2)["worker-restart"]

    assert levers_of(fixes)[0] == ("persistent-workers", None)


def test_data_from_storage_are_read_ahead_and_bounded_by_a_mocked_input(tmp_path):
    fixes = findings(tmp_path / "r", workers=16, getitem_ms=10, blocked_ms=400, storage=True, cores=4)["storage-wait"]

    assert levers_of(fixes) == [("warm-cache", "mock-loader"), (None, "mock-loader")]


def test_advice_names_a_lever_too(tmp_path):
    fixes = findings(tmp_path / "r", threads=1, cores=8, nodes=20, workers=1, getitem_ms=1, fixed_ms=60)["idle-cores"]

    assert levers_of(fixes) == [("threads=2", None)]


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

    spelled = [path.name for path in sorted(rules.glob("*.py")) if re.search(r"(lever|bounded_by)=f?[\"']", path.read_text())]
    assert spelled == []
