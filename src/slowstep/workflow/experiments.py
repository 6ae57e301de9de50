"""The experiment in a recording's folder: read, put into the report, and what to do after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slowstep.diagnosis.tried import with_tried
from slowstep.document.experiment import experiment_section
from slowstep.document.rows import finding_row
from slowstep.document.sections import ExperimentSection, Sections
from slowstep.prove.experiment import load
from slowstep.prove.recorded import read_experiment
from slowstep.workflow.next_command.after_experiment import ReportDict, after_experiment


def join_experiment(sections: Sections, folder: Path) -> tuple[Sections, ExperimentSection | None]:
    """What the experiment shows, None where there is none, and the sections with what that changes in their diagnosis and what to do next.

    Raises UnreadableInput where it is damaged.
    """
    experiment = load(folder)
    if experiment is None:
        return sections, None
    run: ReportDict = {**sections.run}
    recorded = read_experiment(folder, from_ns=experiment.until_ns, cores=run.get("cores"))
    section = experiment_section(experiment, recorded, sections.diagnosis)
    told: ReportDict = {
        "run": run | {"experiment": section.facts},
        "verdict": {"state": sections.diagnosis.verdict.state, "rule": sections.diagnosis.verdict.rule},
        "findings": [finding_row(finding) for finding in sections.diagnosis.findings],
        "experiments": section.rows,
    }
    step = after_experiment(told, section.options, experiment.kept)
    diagnosis = with_tried(sections.diagnosis, section.tried)
    return replace(sections, diagnosis=diagnosis, next_step=replace(step, folder=sections.next_step.folder)), section
