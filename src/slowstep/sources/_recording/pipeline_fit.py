"""Whether lines on input pipelines say what their tables need: others write into files too, and processes are killed."""

from __future__ import annotations

from typing import Any, Final

# Of each stage as it runs: what is counted of it, and what it is set to, where it can be.
COUNTED: Final = ("elements", "ns", "buffered", "bytes")
SET: Final = ("parallelism", "parallelism_tuned", "buffer_size")


def pipeline_fits(note: dict[str, Any]) -> bool:
    """Whether the line of a pipeline says of each stage what the tables need."""
    stages = note["stages"]
    return all(
        isinstance(stage, dict)
        and isinstance(stage.get("kind"), str)
        and _is_int(stage.get("into"))
        and stage["into"] < number
        and isinstance(stage.get("reads"), (str, type(None)))
        and all(map(_is_place, (*(stage.get("python") or ()), *([] if stage.get("function") is None else [stage["function"]]))))
        for number, stage in enumerate(stages)
    )


def nodes_fit(note: dict[str, Any]) -> bool:
    """The same of a reading of what they have counted."""
    return all(
        isinstance(node, dict)
        and isinstance(node.get("name"), str)
        and isinstance(node.get("inputs"), list)
        and all(map(_is_int, (node.get("id"), *node["inputs"], *(node.get(key) for key in COUNTED))))
        and all(node[key] >= 0 for key in COUNTED)
        and isinstance(node.get("ratio"), (int, float))
        and all(node.get(key) is None or (isinstance(node[key], int) and node[key] >= 0) for key in SET)
        for node in note["nodes"]
    )


def _is_place(place: Any) -> bool:
    return isinstance(place, list) and [type(each) for each in place] == [str, str, int]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
