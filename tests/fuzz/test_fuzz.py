"""Whatever stands in a trace or a recording, there is a report or a refusal: `python -m fuzz` tries more cases than these."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from few import few
from fuzz.case import Case, drawn, made
from fuzz.targets import TARGETS
from fuzz.trial import minimised, tried
from how_many import how_many
from slowstep.timeline.timeline import Timeline

FAILED = [line.partition("#")[0].strip() for line in (Path(__file__).parent / "failed.txt").read_text().splitlines()]
# So many of each in the everyday suite, and in the whole one: half a second each, of traces. `make nightly` tries others for an hour.
FEW, MANY = 4, {"kineto": 15, "xplane": 10, "nsys": 10, "recordings": 30}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def failures(name: str, seeds: range) -> list[str]:
    target = TARGETS[name]
    found = [outcome.failure for seed in seeds if (outcome := tried(target, drawn(target, seed))).failure is not None]
    return [str(minimised(failure, partial(tried, target))) for failure in found]


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in FAILED if line])
def test_what_once_failed_fails_no_more(line: str) -> None:
    case = Case.parse(line)

    assert tried(TARGETS[case.target], case).failure is None


@pytest.mark.parametrize("name", few(sorted(TARGETS), every=2))
def test_a_few_damaged_inputs_are_diagnosed_or_refused(name: str) -> None:
    assert failures(name, range(how_many(FEW))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_many_damaged_inputs_are_diagnosed_or_refused(name: str) -> None:
    assert failures(name, range(FEW, FEW + MANY[name])) == []


@pytest.mark.parametrize("name", few(sorted(TARGETS), every=2))
def test_a_base_that_is_not_damaged_has_a_report(name: str) -> None:
    target = TARGETS[name]
    base = next(iter(target.bases))

    outcome = tried(target, Case(name, base, ()))

    assert outcome.failure is None
    assert outcome.reported


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_case_is_made_again_from_its_line(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    case = next(case for seed in range(100) if len((case := drawn(target, seed)).changes) >= 3)
    folders = [tmp_path / each for each in ("one", "other")]
    for folder in folders:
        folder.mkdir()

    path, changes = made(target, case, folders[0])
    again, same_changes = made(target, Case.parse(str(case)), folders[1])

    assert changes == same_changes
    assert content(path) == content(again)


def content(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_a_failure_is_named_by_its_place_and_keeps_only_the_changes_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TARGETS["recordings"]
    case = Case("recordings", "workers", (("notes-shuffled", 1), ("records-kept", 3), ("note-gone", 5)))
    of_several = 50

    def broken(timeline: Timeline, *_: object, **__: object) -> None:
        if timeline.table("updates").height < of_several:
            raise ZeroDivisionError

    monkeypatch.setattr("slowstep.workflow.diagnose_recordings.recorded_job", broken)
    failure = tried(target, case).failure

    assert failure is not None
    assert failure.kind == "ZeroDivisionError in workflow/diagnose_recordings.py:diagnose_all"
    assert minimised(failure, partial(tried, target)).case.changes == (("records-kept", 3),)


def test_a_fault_that_costs_a_rule_only_is_a_failure_here(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TARGETS["recordings"]
    from slowstep.workflow import analyze

    whole = analyze.diagnose_recording

    def isolated(*given: object, **more: object) -> dict[str, object]:
        report = whole(*given, **more)  # type: ignore[arg-type]
        report["health"].append({"name": "internal-errors", "severity": "error", "count": 1, "remedy": "report it"})
        return report

    monkeypatch.setattr("slowstep.workflow.analyze.diagnose_recording", isolated)

    failure = tried(target, Case("recordings", "workers", ())).failure

    assert failure is not None
    assert "internal" in failure.kind
