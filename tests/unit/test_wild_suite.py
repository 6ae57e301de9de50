"""The wild suite: every training says what is true of it, and the score counts what it says it counts."""

from __future__ import annotations

import pytest

from wild_folder import WILD, wild_folder  # noqa: F401


@pytest.fixture(scope="module")
def suite():
    import suite

    return suite


@pytest.fixture(scope="module")
def score():
    import score

    return score


def files(ending):
    return [pytest.param(path, id=f"{path.parent.name}/{path.name}") for path in sorted(WILD.glob(f"*/*{ending}"))]


def finding(**differing):
    made = {
        "rule": "slow-transform",
        "stage": "preprocess",
        "title": "a function takes most of it",
        "share": 0.5,
        "claims": ["making samples"],
        "evidence": [],
        "fixes": [{"text": "vectorise it", "lever": None, "changes_numerics": False}],
        "gain": {"predicted": 1.9, "low": 1.7, "high": 2.1, "assumes": "", "measured": None},
    }
    return made | differing


def report(state, stage, *findings):
    return {"verdict": {"state": state, "stage": stage, "rule": findings[0]["rule"] if findings else None}, "findings": list(findings)}


@pytest.fixture
def made_case(suite, tmp_path):
    def make(**differing):
        script = tmp_path / "train.py"
        script.write_text("def load(i):\n    return slow(i)\n")
        fields = {
            "name": "train",
            "script": script,
            "source": "https://example.org/1",
            "mechanism": "slow",
            "blind": False,
            "needs": (),
            "state": "bottleneck",
            "stages": ("read", "preprocess"),
            "function": "Data.load",
            "line": r"slow\(i\)",
            "rules": ("slow-sampler",),
            "words": ("h5py",),
            "alike": (),
            "same_numbers": True,
        }
        return suite.Case(**fields | differing)

    return make


@pytest.mark.parametrize("path", files(".toml"))
def test_every_file_says_what_is_true_of_a_script_that_holds_it(suite, path):
    case = suite.read_case(path)

    assert case.blind == (path.parent.name == "blind")


@pytest.mark.parametrize("path", files(".py"))
def test_every_training_has_its_truth_beside_it(path):
    assert path.with_suffix(".toml").is_file()
    compile(path.read_text(), str(path), "exec")


def test_healthy_trainings_and_planted_problems_are_both_among_them(suite):
    states = [case.state for case in suite.read_cases(blind=False)]

    assert states.count("healthy") >= 8
    assert states.count("bottleneck") >= 18


def test_a_third_of_the_trainings_of_other_frameworks_are_blind(suite):
    open_ones, blind = ([case for case in suite.read_cases(blind=which) if not case.pytorch_alone] for which in (False, True))

    assert len(open_ones) + len(blind) >= 15
    assert 3 * len(blind) >= len(open_ones) + len(blind)
    assert {name for case in (*open_ones, *blind) for name in case.needs} >= suite.OTHER_FRAMEWORKS


@pytest.mark.parametrize(("needs", "alone"), [((), True), (("h5py",), True), (("jax", "optax"), False), (("torch", "keras"), False)])
def test_a_training_that_needs_another_framework_is_not_pytorchs_alone(made_case, needs, alone):
    assert made_case(needs=needs).pytorch_alone is alone


def test_the_version_of_a_package_is_that_of_what_installed_it(monkeypatch):
    import run

    monkeypatch.setattr(run, "packages_distributions", lambda: {"tensorflow": ["tensorflow-cpu"]})
    monkeypatch.setattr(run.machine, "installed_version", {"tensorflow-cpu": "2.21.0"}.get)

    assert run.version_of("tensorflow") == "2.21.0"
    assert run.version_of("keras") is None


def test_a_line_that_the_script_does_not_hold_is_said(suite, made_case):
    assert suite.wrong_with(made_case(line="elsewhere")) == ["no line of the script matches 'elsewhere'"]


@pytest.mark.parametrize(
    ("said", "right", "wrong"),
    [
        (("bottleneck", "read"), True, False),
        (("bottleneck", "store"), False, True),
        (("healthy", "compute"), False, True),
        (("undetermined", "read"), False, False),
    ],
)
def test_state_and_stage_make_a_verdict_right_and_doubt_is_not_wrong(score, made_case, said, right, wrong):
    outcome = score.to_outcome(made_case(), report(*said, finding()), 2.0)

    assert (outcome.right, outcome.confidently_wrong) == (right, wrong)


def test_a_bottleneck_in_a_healthy_training_is_a_false_alarm(score, made_case):
    healthy = made_case(state="healthy", stages=(), function=None, line=None, rules=(), words=())

    assert score.to_outcome(healthy, report("bottleneck", "read", finding()), None).false_alarm
    assert not score.to_outcome(healthy, report("undetermined", "read"), None).false_alarm


@pytest.mark.parametrize(
    ("differing", "named"),
    [
        ({}, False),
        ({"rule": "slow-sampler"}, True),
        ({"title": "Data.load takes most of it"}, True),
        ({"title": "line 2 (train.py) takes most of it"}, True),
        ({"title": "Data.load_all takes most of it"}, False),
        ({"evidence": [{"name": "time", "value": 0.5, "unit": "share", "threshold": None, "where": "train.py:2"}]}, True),
        ({"evidence": [{"name": "time", "value": 0.5, "unit": "share", "threshold": None, "where": "train.py:20"}]}, False),
        ({"fixes": [{"text": "larger chunks in h5py", "lever": None, "changes_numerics": False}]}, True),
    ],
)
def test_a_cause_is_named_by_rule_function_line_or_word(score, made_case, differing, named):
    assert score.to_outcome(made_case(), report("bottleneck", "read", finding(**differing)), 2.0).named is named


def test_what_nothing_in_the_script_causes_does_not_lead(score, made_case):
    outcome = score.to_outcome(made_case(), report("bottleneck", "read", finding(rule="foreign-load", outside=True), finding()), 2.0)

    assert outcome.rule == "slow-transform"


def test_advice_leads_only_where_nothing_claims_time(score, made_case):
    advice = finding(rule="slow-start", claims=[])

    assert score.to_outcome(made_case(), report("undetermined", "read", advice, finding()), 2.0).rule == "slow-transform"
    assert score.to_outcome(made_case(), report("undetermined", "read", advice), 2.0).rule == "slow-start"


def test_the_gain_is_that_of_the_fix_where_it_is_the_same_and_else_the_bound(score, made_case):
    alike = score.to_outcome(made_case(alike=("slow-transform",)), report("bottleneck", "read", finding()), 1.9)
    other = score.to_outcome(made_case(), report("bottleneck", "read", finding()), 2.0)

    assert (alike.predicted, alike.basis, alike.log_error) == (1.9, "fix", 0.0)
    assert (other.predicted, other.basis, other.log_error) == (2.0, "bound", 0.0)


def test_advice_that_claims_no_time_has_no_bound(score, made_case):
    outcome = score.to_outcome(made_case(), report("undetermined", "compute", finding(claims=[], gain={"predicted": None})), 2.0)

    assert (outcome.predicted, outcome.basis) == (None, None)


def test_silence_counts_as_infinitely_wrong(score, made_case):
    outcomes = tuple(score.to_outcome(made_case(), report("undetermined", "read"), 2.0) for _ in range(3))

    assert score.Score(outcomes=()).median_log_error is None
    assert score.Score(outcomes=outcomes).median_log_error == float("inf")


def results(*cases, failed=()):
    """Of runs that found what `report` says, and of some that failed."""
    rows = [{"round": 0, "case": case.name, "pairs": [{"base": 1.0, "fixed": 2.0}], "report": found} for case, found in cases]
    described = {"cpu": "made", "cores": 2, "kernel": "6", "python": "3.11", "torch": "2.13", "load": [0.1]}
    head = {"date": "2026-11-29", "rounds": 1, "pairs": 1, "steps": None, "machine": described, "foreign_share": 0.0}
    return {**head, "rows": rows, "failed": [{"round": 0, "case": name} for name in failed]}


@pytest.fixture
def page():
    import page

    return page


def test_the_summary_counts_the_blind_third_apart(page, made_case):
    seen, unseen = made_case(), made_case(name="other")
    raw = results((seen, report("bottleneck", "read", finding())), (unseen, report("healthy", "compute")))

    text = page.summary(raw, "made.json", [seen], [unseen])

    assert "| state and stage right | 1 of 1 | 0 of 1 |" in text
    assert "| state and stage right | 1 of 1 |\n" in page.summary(raw, "made.json", [seen], [])


def test_what_was_run_again_stands_in_the_place_of_what_was_run_before(page, made_case):
    one, other = made_case(), made_case(name="other")
    older = results((one, report("healthy", "compute")), failed=["other"])
    newer = results((one, report("bottleneck", "read", finding())), (other, report("bottleneck", "read", finding())))

    raw = page.with_newer(older, "older.json", newer, "newer.json")

    assert [row["report"]["verdict"]["state"] for row in raw["rows"]] == ["bottleneck"] * 2
    assert raw["failed"] == []
    assert [name for name, _ in raw["sittings"]] == ["older.json", "newer.json"]
