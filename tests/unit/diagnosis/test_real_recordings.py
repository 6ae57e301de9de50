"""Rules on recordings of real trainings, each with the problem that its rule is about and without it (tests/data/recordings)."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from slowstep.analyses.measurements import measure
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.law import Diagnosis
from slowstep.parts import Part, PartKind
from slowstep.sources import recording

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"
SCRIPTS = sorted(script.stem for script in (RECORDINGS / "scripts").glob("*.py"))
# The first finding's fix is what the other form of the script does.
FIXED_AS_ADVISED = ("per_step_metrics", "periodic_stall", "repeated_preprocessing", "worker_thread_oversubscription")


@dataclass(frozen=True)
class Judged:
    step_ms: float
    diagnosis: Diagnosis

    @property
    def named(self) -> set[str]:
        return {rule for finding in self.diagnosis.findings for rule in (finding.rule, *finding.also)}


@cache
def judged(script: str, form: str) -> Judged:
    with TemporaryDirectory() as folder:
        with tarfile.open(RECORDINGS / f"{script}-{form}.tar.xz") as packed:
            # Early releases of Python 3.11 know no filters; later ones warn where none is chosen.
            packed.extraction_filter = getattr(tarfile, "data_filter", None)
            packed.extractall(folder)
        measured = measure(recording.read(Path(folder)))
    return Judged(step_ms=float(measured.step_ns.mean()) / 1e6, diagnosis=diagnose(measured))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_rule_names_its_problem_where_it_is_and_nowhere_else(script: str) -> None:
    rule = script.replace("_", "-")

    assert rule in judged(script, "problem").named
    assert rule not in judged(script, "fixed").named


@pytest.mark.parametrize("script", FIXED_AS_ADVISED)
def test_the_true_gain_lies_in_the_predicted_interval(script: str) -> None:
    problem, fixed = judged(script, "problem"), judged(script, "fixed")
    gain = problem.diagnosis.findings[0].gain

    assert problem.diagnosis.findings[0].rule == script.replace("_", "-")
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low <= problem.step_ms / fixed.step_ms <= gain.high


def test_ending_workers_wherever_their_iterator_is_dropped_is_the_loaders_time() -> None:
    finding = judged("iterator_recreated", "problem").diagnosis.findings[0]

    assert Part("preprocess", PartKind.LOADER_END) in finding.claims
    assert finding.gain.high is not None
    # A new iterator for each batch also has every page of the model copied after each fork.
    truth = judged("iterator_recreated", "problem").step_ms / judged("iterator_recreated", "fixed").step_ms
    assert finding.gain.low is not None
    assert finding.gain.low <= truth <= finding.gain.high


def test_cores_that_are_nearly_full_are_no_bottleneck_of_too_few_workers() -> None:
    """Of the two workers of this training three had 0.75 to 0.91 times the samples/s: 1.26 times was predicted."""
    fixed = judged("worker_thread_oversubscription", "fixed").diagnosis

    assert fixed.verdict.state != "bottleneck"
