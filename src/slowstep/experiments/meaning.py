"""What a lever means, however it is written: the script's own functions go by several names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from slowstep.record.experiment.lever import Spec

MAIN: Final = "__main__"
_OF_FUNCTIONS: Final = ("stub", "swap")


def script_names(run: Mapping[str, Any]) -> frozenset[str]:
    """The names by which the script's module goes beside `__main__`, as `levers/_targets.py` knows them: that of its file, which the run is
    called by, and that given to `python -m`. `run` is the report's.
    """
    names = {run["name"]} if run.get("name") else set()
    for word, module in pairwise(run.get("command") or ()):
        if word == "-m":
            plain = module.removesuffix(".__main__")
            names |= {module, plain, plain.rpartition(".")[2]}
    return frozenset(names)


def meant(spec: Spec, mains: frozenset[str]) -> Spec:
    """The same lever, its functions by the one name that the findings use: `__main__` for what is the script's."""
    if spec.name not in _OF_FUNCTIONS or spec.value is None:
        return spec
    functions = [function.partition(":") for function in spec.value.split("=")]
    return replace(spec, value="=".join(f"{MAIN if name in mains else name}{colon}{path}" for name, colon, path in functions))
