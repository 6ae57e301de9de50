"""Matrix products and convolutions in 16 bits, by torch.autocast.

It is around the model and its loss.

What it changes:
    `torch.autocast` is entered before the outermost module's forward (with gradients, on the training thread) and left when backward
    begins, as a script would do it: weights are cast again each time, the loss is computed under it, backward and optimizer run outside.
    Outputs of the model are given back in float32, so that what the script does with them goes on working. Nothing scales the loss.
What it answers:
    What mixed precision would gain: `autocast=bf16` on a processor or an accelerator, `autocast=fp16` on an accelerator. It changes the
    numbers: the loss is compared with and without it before anything is said of them.
When it has no meaning:
    The script uses autocast or a GradScaler already, the parameters are not float32 or on a device without 16 bits, the model is compiled
    (it would be compiled again) or is no `nn.Module`. Without 16-bit instructions of the processor it is slower, and that is measured.
    Of a script that updates by hand the parameters are those of the outermost modules that want gradients.
How it is undone:
    The context is left at the end of the step, with its cache of cast weights; the functions that were replaced are put back. Parameters,
    gradients and the optimizer's state have been float32 all the time. That the training has learned from other numbers stays.
"""

from __future__ import annotations

from typing import Final

from slowstep.record.experiment.lever import NUMERICS, Lever, LeverSpec, OnLongSteps

# What its values are called by whoever computes with them.
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16"}


def read_type(spec: LeverSpec) -> str:
    """The type. Raises ValueError for another one than these."""
    value = spec.value or "bf16"
    if value not in DTYPES:
        raise ValueError("it is autocast=bf16, or autocast=fp16 on an accelerator")
    return value


LEVER = Lever(
    name="autocast",
    takes="bf16|fp16",
    takes_optional=True,
    changes=frozenset({NUMERICS}),
    long_steps=OnLongSteps.PERHAPS,
    read=read_type,
)
