"""Whether lines on input pipelines say what their tables need: others write into files too, and processes are killed."""

from __future__ import annotations

from typing import Any, Final

from slowstep.sources._recording.note_types import FitKind, is_of, is_place

# Of each stage as it runs: what is counted of it, and what it is set to, where it can be.
COUNTED: Final = ("elements", "ns", "buffered", "bytes")
SET: Final[dict[str, FitKind]] = {"parallelism": int, "parallelism_tuned": bool, "buffer_size": int}


def pipeline_fits(note: dict[str, Any]) -> bool:
    """Whether the line of a pipeline says of each stage what the tables need."""
    return all(_stage_fits(stage, number) for number, stage in enumerate(note["stages"]))


def _stage_fits(stage: Any, number: int) -> bool:
    if not isinstance(stage, dict):
        return False
    places = [] if stage.get("python") is None else stage["python"]
    return (
        is_of(stage.get("kind"), str)
        and is_of(stage.get("into"), int)
        and stage["into"] < number
        and (stage.get("reads") is None or is_of(stage["reads"], str))
        and (stage.get("loops") is None or is_of(stage["loops"], bool))
        and isinstance(places, list)
        and all(map(is_place, places))
        and (stage.get("function") is None or is_place(stage["function"]))
    )


def nodes_fit(note: dict[str, Any]) -> bool:
    """The same of a reading of what they have counted."""
    return all(map(_node_fits, note["nodes"]))


def _node_fits(node: Any) -> bool:
    return (
        isinstance(node, dict)
        and is_of(node.get("id"), int)
        and is_of(node.get("name"), str)
        and is_of(node.get("inputs"), list[int])
        and all(is_of(node.get(key), int) and node[key] >= 0 for key in COUNTED)
        and is_of(node.get("ratio"), float)
        and all(node.get(key) is None or (is_of(node[key], kind) and node[key] >= 0) for key, kind in SET.items())
    )
