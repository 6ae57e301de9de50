"""The line of the user's own code among the Python frames that a trace names."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final

import polars as pl

from slowstep.analyses.functions import LIBRARY

# As profilers write them: `train.py(184): main`, in a stack one after the other, the innermost first.
FRAME: Final = re.compile(r"^\s*(?P<file>[^\n()]+\.(?:py|pyx|ipynb)|<(?:stdin|ipython)[^>]*>)\((?P<line>\d+)\)(?P<module>: <module>)?")
_SEPARATOR: Final = r"[/\\]"
# PyTorch's tracer cuts the folders of `sys.path` off, site-packages among them: what is left then begins with the package's name.
PACKAGES: Final = re.compile(
    r"(accelerate|apex|colossalai|composer|datasets|deepspeed|diffusers|fairscale|fbgemm_gpu|fire|flash_attn|"
    r"flashinfer|flax|fsspec|hydra|ignite|IPython|ipykernel|jax|jaxlib|keras|lightning|lightning_fabric|"
    r"lightning_utilities|numba|numpy|omegaconf|optax|optree|pandas|peft|PIL|pytorch_lightning|safetensors|scipy|"
    r"sklearn|tensorboard|tensorboardX|tensorflow|timm|tokenizers|torch|torchaudio|torchdata|torchmetrics|torchrec|"
    r"torchtext|torchvision|tqdm|transformer_engine|transformers|triton|trl|vllm|wandb|xformers)"
)


def user_line(frame: str) -> str | None:
    """`file:line` of a frame as a profiler writes it, the file alone for a module's own lines; None for one of a library or of no file."""
    found = FRAME.match(frame)
    if found is None or LIBRARY.search(found["file"]):
        return None
    top = re.split(_SEPARATOR, found["file"], maxsplit=1)[0].removesuffix(".py")
    if PACKAGES.fullmatch(top) or top in sys.stdlib_module_names:
        return None
    # A module runs all along: its line is where it stood when the profiler was started.
    return found["file"] if found["module"] else f"{found['file']}:{found['line']}"


def user_function(frame: str) -> str | None:
    """A function of the user's own code as the ledger calls it, `save_images (train.py:30)`; None for a module, and as in `user_line`."""
    line = user_line(frame)
    if line is None or frame.endswith(": <module>"):
        return None
    return f"{frame.partition('): ')[2]} ({re.split(_SEPARATOR, line)[-1]})"


def line_of_stack(stack: str) -> str | None:
    """`file:line` of the innermost frame of the user's own code in a stack: frames apart by ';', the innermost first."""
    return next((line for frame in stack.split(";") if (line := user_line(frame))), None)


def user_lines(names: pl.Series, stacks: pl.Series) -> pl.Series:
    """The user's line of each host event by its stack or, for a Python function, its name; categorical, null where there is none.

    `names`: of Python functions, null for other events; `stacks`: shape (n,) each. Each different name and stack is looked at once.
    """
    by_stack, by_name = _each(stacks, line_of_stack), _each(names, user_line)
    return by_stack.zip_with(by_stack.is_not_null(), by_name).rename("where")


def _each(texts: pl.Series, read: Callable[[str], str | None]) -> pl.Series:
    known = texts.drop_nulls().unique()
    lines = pl.Series("line", [read(text) for text in known.cast(pl.String).to_list()], dtype=pl.String).cast(pl.Categorical)
    rows = texts.to_frame("text").join(pl.DataFrame({"text": known, "line": lines}), on="text", how="left", maintain_order="left")
    return rows["line"]
