"""Whether lines on input pipelines say what their tables need: others write into files too, and processes are killed."""

from __future__ import annotations

from typing import Any, Final

# Of each stage as it runs: what is counted of it, and what it is set to, where it can be.
COUNTED: Final = ("elements", "ns", "buffered", "bytes")
SET: Final = {"parallelism": int, "parallelism_tuned": bool, "buffer_size": int}


def pipeline_fits(note: dict[str, Any]) -> bool:
    """Whether the line of a pipeline says of each stage what the tables need."""
    return all(_stage_fits(stage, number) for number, stage in enumerate(note["stages"]))


def _stage_fits(stage: Any, number: int) -> bool:
    if not isinstance(stage, dict):
        return False
    places = [] if stage.get("python") is None else stage["python"]
    return (
        isinstance(stage.get("kind"), str)
        and _is_int(stage.get("into"))
        and stage["into"] < number
        and isinstance(stage.get("reads"), (str, type(None)))
        and isinstance(places, list)
        and all(map(_is_place, places))
        and (stage.get("function") is None or _is_place(stage["function"]))
    )


def nodes_fit(note: dict[str, Any]) -> bool:
    """The same of a reading of what they have counted."""
    return all(map(_node_fits, note["nodes"]))


def _node_fits(node: Any) -> bool:
    return (
        isinstance(node, dict)
        and isinstance(node.get("name"), str)
        and isinstance(node.get("inputs"), list)
        and all(map(_is_int, (node.get("id"), *node["inputs"], *(node.get(key) for key in COUNTED))))
        and all(node[key] >= 0 for key in COUNTED)
        and isinstance(node.get("ratio"), (int, float))
        and all(node.get(key) is None or (type(node[key]) is kind and node[key] >= 0) for key, kind in SET.items())
    )


def _is_place(place: Any) -> bool:
    return isinstance(place, list) and [type(each) for each in place] == [str, str, int]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
