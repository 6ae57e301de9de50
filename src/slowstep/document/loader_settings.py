"""How the training's loader was made, setting by setting, beside what the rules said of each: the section `loader_settings` of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.loader_setting_rows import LoaderSettingRow, Said
from slowstep.findings import Finding
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument

# The rules whose fix a setting is; a test holds that there are such rules.
RULES_OF: Final[Mapping[Remedy, frozenset[str]]] = {
    Remedy.WORKERS: frozenset({"serial-loader", "too-few-workers", "needless-workers"}),
    Remedy.PREFETCH: frozenset({"straggler-samples"}),
    Remedy.PERSISTENT_WORKERS: frozenset({"worker-restart", "iterator-recreated"}),
    Remedy.PIN_MEMORY: frozenset({"pageable-copy"}),
    Remedy.BATCH_SIZE: frozenset({"small-batch"}),
}
# What does nothing where the training thread makes the batches.
_OF_WORKERS: Final = (Remedy.PREFETCH, Remedy.PERSISTENT_WORKERS)
_PROCESSOR: Final = "cpu"


def loader_settings(m: Measurements, diagnosis: Diagnosis) -> list[LoaderSettingRow] | None:
    """None where no loader feeds the training, or it has no such settings; of a trace nobody knows them."""
    loader = m.input.loader if m.has("input", "compute", "training", "trainer") else None
    if loader is None or loader.is_marked:
        return None
    return list(_rows(m, loader, diagnosis)) or None


def _rows(m: Measurements, loader: Loader, diagnosis: Diagnosis) -> Iterator[LoaderSettingRow]:
    for remedy, value in _values(loader).items():
        argument = m.training.words.find(remedy)
        if not isinstance(argument, Argument) or argument.default is ...:
            continue
        idle = _is_idle(remedy, loader, m.compute.device)
        finding = None if idle else _about(remedy, diagnosis)
        yield {
            "setting": argument.name,
            "value": value,
            # One that does nothing is recorded as what it comes to.
            "default": None if value is None or idle else value == argument.default,
            "said": "without effect" if idle else "finding" if finding is not None else _unfound(remedy, diagnosis),
            "rule": None if finding is None else finding.rule,
            "share": None if finding is None else finding.share,
        }


def _values(loader: Loader) -> dict[Remedy, int | bool | None]:
    return {
        Remedy.WORKERS: loader.num_workers,
        Remedy.PREFETCH: loader.prefetch_factor,
        Remedy.PERSISTENT_WORKERS: loader.persistent,
        Remedy.PIN_MEMORY: loader.pin_memory,
        Remedy.BATCH_SIZE: loader.batch_size,
    }


def _is_idle(remedy: Remedy, loader: Loader, device: str | None) -> bool:
    return (remedy in _OF_WORKERS and not loader.num_workers) or (remedy is Remedy.PIN_MEMORY and device == _PROCESSOR)


def _about(remedy: Remedy, diagnosis: Diagnosis) -> Finding | None:
    """The first finding of one of its rules, or of one into which such a rule is folded."""
    rules = RULES_OF[remedy]
    return next((each for each in diagnosis.findings if not rules.isdisjoint((each.rule, *each.also))), None)


def _unfound(remedy: Remedy, diagnosis: Diagnosis) -> Said:
    return "nothing to gain" if RULES_OF[remedy].isdisjoint(each.rule for each in diagnosis.not_judged) else "not judged"
