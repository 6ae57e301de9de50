"""For what a function was traced again: which argument changed most often, and what to change for it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from slowstep.analyses.compute.retraces import ChangeKind, Retrace
from slowstep.analyses.measurements import Measurements
from slowstep.findings import Evidence, EvidenceCode, Fix
from slowstep.frameworks._remedies import Remedy

_SHOWN: Final = 3
_REMEDIES: Final = {
    ChangeKind.DTYPE: Remedy.SAME_TYPES,
    ChangeKind.VALUE: Remedy.VALUE_AS_ARRAY,
    ChangeKind.OBJECT: Remedy.SAME_OBJECT,
    ChangeKind.STRUCTURE: Remedy.SAME_STRUCTURE,
    ChangeKind.FUNCTION: Remedy.FUNCTION_ONCE,
}
_OF_SHAPES: Final = (Remedy.SAME_SHAPES, Remedy.DECLARE_SHAPES)


def retraces_of(m: Measurements, function: str | None) -> list[Retrace]:
    """The last change of each argument, those first that changed most often; of the function, where it is known which it is."""
    found = [each for each in m.compute.retraces if function in (None, each.function)]
    last = {_key(each): each for each in found}
    return [last[key] for key, _ in Counter(map(_key, found)).most_common()]


def _key(each: Retrace) -> tuple[str, str, ChangeKind]:
    return each.function, each.argument, each.change


def retrace_evidence(changes: list[Retrace]) -> tuple[Evidence, ...]:
    """What changed."""
    return tuple(
        Evidence(
            name=f"what changed: {each.change}",
            value=_written(each),
            unit="",
            where=f"{each.argument} of {each.function}" if each.argument else each.function,
            code=EvidenceCode.CHANGED,
        )
        for each in changes[:_SHOWN]
    )


def _written(each: Retrace) -> str:
    if each.change is ChangeKind.FUNCTION:
        return "made anew"
    return f"{each.before or 'absent'} -> {each.after or 'absent'}"


def retrace_fixes(m: Measurements, changes: list[Retrace]) -> tuple[Fix, ...]:
    """For what changed most often first; where nothing tells what did, for shapes."""
    remedies: list[tuple[Remedy, str]] = []
    for each in changes:
        of_it = _OF_SHAPES if each.change is ChangeKind.SHAPE else (_REMEDIES[each.change],)
        remedies += [(remedy, each.argument or each.function) for remedy in of_it if all(remedy is not known for known, _ in remedies)]
    words = m.training.words
    return tuple(Fix(text=words.advise(remedy, argument=argument)) for remedy, argument in remedies or [(each, "") for each in _OF_SHAPES])
