"""The names of spans, as hooks record them: what they say that the span is, and the name of its own that follows."""

from __future__ import annotations

from typing import Final

from slowstep import stages
from slowstep.frameworks._known import spans
from slowstep.parts import CodePlace, Part, PartKind

# What follows is the framework's or the user's own name.
_PREFIXES: Final = {
    stages.CALLBACK: PartKind.CALLBACK,
    stages.PROGRESS: PartKind.PROGRESS_BAR,
    stages.LOGGING: PartKind.LOGGING,
    stages.METRICS: PartKind.METRICS,
    stages.CHECKPOINT: PartKind.CHECKPOINT,
    stages.TRANSFORM: PartKind.TRANSFORM,
    stages.COMPILATION: PartKind.COMPILATION,
}
# Whoever calls a span of theirs so means the same.
_WHOLE: Final = {
    stages.VALIDATION: PartKind.VALIDATION,
    stages.LOADER_START: PartKind.LOADER_START,
    "forward": PartKind.FORWARD,
    "backward": PartKind.BACKWARD,
    "optimizer": PartKind.OPTIMIZER,
    **spans(),
}


def named_part(stage: str, name: str | None, place: CodePlace | None) -> Part:
    """The part of the ledger that a span is charged to."""
    if place is None and name in _WHOLE:
        return Part(stage, _WHOLE[name])
    prefix = next((prefix for prefix in _PREFIXES if (name or "").startswith(prefix)), None)
    if name is None or prefix is None:
        return Part(stage, PartKind.COLLECTIVE if stage == "gradient_sharing" else PartKind.SPAN, name or "span", place)
    return Part(stage, _PREFIXES[prefix], name.removeprefix(prefix), place)


def names_of(kind: PartKind) -> list[str]:
    """What spans of a kind are called that have no name of their own."""
    return [name for name, each in _WHOLE.items() if each is kind]


def names_kind(name: str, kind: PartKind) -> bool:
    """Whether a span of this name is of a kind."""
    return named_part("", name, None).kind is kind
