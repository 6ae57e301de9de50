"""How users of Hugging Face's Trainer write changes: it makes loaders and optimizers itself, from its TrainingArguments."""

from __future__ import annotations

import re

from slowstep.frameworks._words import Argument, Change, Words
from slowstep.frameworks.torch.outside.words import WORDS as TORCH


def _of_arguments(name: str, value: object = None) -> Argument:
    return Argument(call="TrainingArguments({arguments})", owner="transformers:TrainingArguments", name=name, value=value)


WORDS = Words(
    name="transformers",
    title="Hugging Face Trainer",
    loop=re.compile(r"[/\\]transformers[/\\]trainer\.py$"),
    marks=re.compile(r"(^|[/\\;])transformers[/\\]trainer\.py\b"),
    rests_on=TORCH,
    lacks=frozenset({Change.ANY_ORDER}),
    arguments={
        Change.WORKERS: _of_arguments("dataloader_num_workers"),
        Change.PERSISTENT_WORKERS: _of_arguments("dataloader_persistent_workers"),
        Change.PREFETCH: _of_arguments("dataloader_prefetch_factor"),
        Change.PIN_MEMORY: _of_arguments("dataloader_pin_memory"),
        Change.COPY_AHEAD: _of_arguments("accelerator_config", {"non_blocking": True}),
        Change.BATCH_SIZE: _of_arguments("per_device_train_batch_size"),
        Change.ACCUMULATE: _of_arguments("gradient_accumulation_steps"),
        Change.FUSED_ADAMW: _of_arguments("optim", "adamw_torch_fused"),
        Change.COMPILE: _of_arguments("torch_compile", True),
        Change.GRAPHS: _of_arguments("torch_compile_mode", "reduce-overhead"),
        Change.BFLOAT16: _of_arguments("bf16", True),
        Change.FLOAT16: _of_arguments("fp16", True),
        Change.TF32: _of_arguments("tf32", True),
        Change.DEVICE: _of_arguments("use_cpu", False),
        Change.VALIDATION_BY_STEPS: _of_arguments("eval_strategy", "steps"),
        Change.VALIDATION_STEPS: _of_arguments("eval_steps"),
        Change.VALIDATION_BATCH_SIZE: _of_arguments("per_device_eval_batch_size"),
        Change.CHECKPOINT_BY_STEPS: _of_arguments("save_strategy", "steps"),
        Change.CHECKPOINT_STEPS: _of_arguments("save_steps"),
        Change.CHECKPOINT_WEIGHTS: _of_arguments("save_only_model", True),
        Change.LOGGING_STEPS: _of_arguments("logging_steps"),
        Change.PROGRESS_BAR: _of_arguments("disable_tqdm", True),
        Change.DETERMINISM: _of_arguments("full_determinism", False),
    },
)
