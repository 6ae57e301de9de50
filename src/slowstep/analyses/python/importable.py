"""How a function that is known by its file is named for importing it: `module:function`."""

from __future__ import annotations

from os.path import normpath
from pathlib import PurePath

from slowstep.timeline.timeline import ProcessFacts

MAIN = "__main__"


def import_name(function: str, file: str | None, facts: ProcessFacts) -> str | None:
    """`module:function` of a function by its qualified name and its file, in the process of these facts.

    None where it has no such name: lambdas, code that was typed, files outside of all folders for modules.
    """
    named = all(part.isidentifier() or part == "<locals>" for part in function.split("."))
    module = _module(PurePath(normpath(file)), facts) if named and file is not None else None
    return None if module is None else f"{module}:{function}"


def _module(file: PurePath, facts: ProcessFacts) -> str | None:
    if facts.script is not None and file == PurePath(facts.script):
        return MAIN
    above = [PurePath(entry) for entry in facts.import_path if file.is_relative_to(entry)]
    # Of folders within each other the innermost: a package's own folder is on the path only where its script was started by its file.
    root = max(above, key=lambda entry: len(entry.parts), default=None)
    if root is None or file.suffix != ".py":
        return None
    parts = file.relative_to(root).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else None
