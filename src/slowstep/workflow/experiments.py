"""The experiment in a recording's folder: read, put into the report, and what to do after it."""

from __future__ import annotations

from pathlib import Path

from slowstep.document.experiment import experiment_section
from slowstep.document.next_step import NextStep
from slowstep.document.rows import finding_row
from slowstep.document.sections import ExperimentSection, Sections
from slowstep.prove.experiment import load
from slowstep.prove.recorded import read_experiment
from slowstep.workflow.next_command.after_experiment import ReportDict, after_experiment


def join_experiment(folder: Path, sections: Sections) -> tuple[ExperimentSection, NextStep] | None:
    """What the experiment of a training with these sections shows, and what to do after it; None where there is none.

    Raises UnreadableInput where it is damaged.
    """
    experiment = load(folder)
    if experiment is None:
        return None
    run: ReportDict = {**sections.run}
    recorded = read_experiment(folder, from_ns=experiment.until_ns, cores=run.get("cores"))
    section = experiment_section(experiment, recorded, sections.diagnosis)
    told: ReportDict = {
        "run": run | {"experiment": section.facts},
        "verdict": {"state": sections.diagnosis.verdict.state, "rule": sections.diagnosis.verdict.rule},
        "findings": [finding_row(finding) for finding in sections.diagnosis.findings],
        "experiments": section.rows,
    }
    return section, after_experiment(told, section.options, experiment.kept)
