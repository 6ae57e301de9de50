"""How users of Accelerate write changes: loop, loaders and optimizers are the script's own, and are prepared."""

from __future__ import annotations

import re

from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument, Code, Words
from slowstep.frameworks.torch.outside.words import WORDS as TORCH


def _of_accelerator(name: str, value: object = None) -> Argument:
    return Argument(call="Accelerator({arguments})", owner="accelerate:Accelerator", name=name, value=value)


WORDS = Words(
    name="accelerate",
    title="Accelerate",
    packages=frozenset({"accelerate"}),
    code={
        Code.TRAINS: r"[/\\](site|dist)-packages[/\\]accelerate[/\\]",
    },
    # An optimizer that it has prepared. Others' trainers prepare theirs by it, too.
    loop=re.compile(r"[/\\]accelerate[/\\]optimizer\.py$"),
    marks=re.compile(r"(^|[/\\;])accelerate[/\\](optimizer|accelerator)\.py\b"),
    beneath=True,
    rests_on=TORCH,
    places={"DataLoader": ", before accelerator.prepare()"},
    arguments={
        Remedy.COPY_AHEAD: "Accelerator(dataloader_config=DataLoaderConfiguration(non_blocking=True))",
        Remedy.ACCUMULATE: _of_accelerator("gradient_accumulation_steps"),
        Remedy.COMPILE: _of_accelerator("dynamo_backend", "inductor"),
        Remedy.BFLOAT16: _of_accelerator("mixed_precision", "bf16"),
        Remedy.FLOAT16: _of_accelerator("mixed_precision", "fp16"),
        Remedy.DEVICE: _of_accelerator("cpu", False),
    },
)
