"""The function of the user's own code among the Python frames that a trace names.

Profilers of Python are told when a function is called, and write the line at which it begins, in stacks of operators too (PyTorch's tracer
takes the frame's line at its call event; JAX's and TensorFlow's the code's first line). Where in the function it stood is not known.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final

import polars as pl

from slowstep.analyses.events.places import place_text
from slowstep.analyses.python.functions import LIBRARY
from slowstep.frameworks._known import packages
from slowstep.parts import CodePlace, PartKind

# As profilers write them: `train.py(184): main`, in a stack one after the other, the innermost first.
FRAME: Final = re.compile(
    r"^\s*(?P<file>[^\n()]+\.(?:py|pyx|ipynb)|<(?:stdin|ipython)[^>]*>)\((?P<line>\d{1,18})\)(?:: (?P<function>[^\n]*\S))?"
)
MODULE: Final = "<module>"
_SEPARATOR: Final = r"[/\\]"
# PyTorch's tracer cuts the folders of `sys.path` off, site-packages among them: what is left then begins with the package's name.
_OF_ANY: Final = frozenset(
    {
        *("fire", "fsspec", "hydra", "IPython", "ipykernel", "numba", "numpy", "omegaconf", "optree", "pandas", "PIL", "scipy", "sklearn"),
        *("tensorboard", "tensorboardX", "tqdm", "wandb"),
    }
)
PACKAGES: Final = _OF_ANY | packages()


def user_place(frame: str) -> str | None:
    """`function (file:line)` of a frame as a profiler writes it, the line being the function's first; the file alone for a module's own
    lines; None for one of a library or of no file.
    """
    place = _own_place(frame)
    return None if place is None else place_text(place)


def _own_place(frame: str) -> CodePlace | None:
    found = FRAME.match(frame)
    if found is None or LIBRARY.search(found["file"]):
        return None
    top = re.split(_SEPARATOR, found["file"], maxsplit=1)[0].removesuffix(".py")
    if top in PACKAGES or top in sys.stdlib_module_names:
        return None
    # A module runs all along: its line is where it stood when the profiler was started.
    if found["function"] == MODULE:
        return CodePlace(found["file"], None)
    return CodePlace(found["file"], int(found["line"]), None, found["function"])


def user_function(frame: str) -> str | None:
    """A function of the user's own code without its folders, `save_images (train.py:30)`; None for a module, and as in `user_place`."""
    place = _own_function(frame)
    return None if place is None else place_text(place)


def own_function(frame: str) -> tuple[str, str, str | None] | None:
    """Kind, name and place of the part that a function of the user's own code is; None for what is none, as in `user_function`."""
    place = _own_function(frame)
    if place is None:
        return None
    if place.function is None:
        return PartKind.SPAN.value, place_text(place), None
    return PartKind.FUNCTION.value, place.function, place_text(place._replace(function=None))


def _own_function(frame: str) -> CodePlace | None:
    place = _own_place(frame)
    return None if place is None or place.line is None else place._replace(file=re.split(_SEPARATOR, place.file)[-1])


def place_in_stack(stack: str) -> str | None:
    """The place of the innermost frame of the user's own code in a stack: frames apart by ';', the innermost first."""
    return next((place for frame in stack.split(";") if (place := user_place(frame))), None)


def user_places(names: pl.Series, stacks: pl.Series) -> pl.Series:
    """The user's function of each host event by its stack or, for a Python function, its name; categorical, null where there is none.

    `names`: of Python functions, null for other events; `stacks`: shape (n,) each. Each different name and stack is looked at once.
    """
    by_stack, by_name = _each(stacks, place_in_stack), _each(names, user_place)
    return by_stack.zip_with(by_stack.is_not_null(), by_name).rename("where")


def _each(texts: pl.Series, read: Callable[[str], str | None]) -> pl.Series:
    known = texts.drop_nulls().unique()
    lines = pl.Series("line", [read(text) for text in known.cast(pl.String).to_list()], dtype=pl.String).cast(pl.Categorical)
    rows = texts.to_frame("text").join(pl.DataFrame({"text": known, "line": lines}), on="text", how="left", maintain_order="left")
    return rows["line"]
