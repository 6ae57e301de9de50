"""How users of Hugging Face's Trainer write changes: it makes loaders and optimizers itself, from its TrainingArguments."""

from __future__ import annotations

import re

from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument, Code, Words
from slowstep.frameworks.torch.outside.words import WORDS as TORCH


def _of_arguments(name: str, value: object = None, *, default: object = ...) -> Argument:
    owner = "transformers:TrainingArguments"
    return Argument(call="TrainingArguments({arguments})", owner=owner, name=name, value=value, default=default)


WORDS = Words(
    name="transformers",
    title="Hugging Face Trainer",
    packages=frozenset({"transformers", "datasets", "diffusers", "peft", "safetensors", "tokenizers", "trl"}),
    # Of it only its trainer: its models are called by anybody's loop.
    code={
        Code.TRAINS: r"[/\\](site|dist)-packages[/\\]transformers[/\\]trainer",
        Code.REPORTS: r"[/\\]trainer_callback\.py$",
    },
    loop=re.compile(r"[/\\]transformers[/\\]trainer\.py$"),
    marks=re.compile(r"(^|[/\\;])transformers[/\\]trainer\.py\b"),
    rests_on=TORCH,
    lacks=frozenset({Remedy.ANY_ORDER}),
    arguments={
        Remedy.WORKERS: _of_arguments("dataloader_num_workers", default=0),
        Remedy.PERSISTENT_WORKERS: _of_arguments("dataloader_persistent_workers", default=False),
        Remedy.PREFETCH: _of_arguments("dataloader_prefetch_factor", default=2),
        Remedy.PIN_MEMORY: _of_arguments("dataloader_pin_memory", default=True),
        Remedy.COPY_AHEAD: _of_arguments("accelerator_config", {"non_blocking": True}),
        Remedy.BATCH_SIZE: _of_arguments("per_device_train_batch_size", default=8),
        Remedy.PAD_TO_LONGEST: "tokenize without padding='max_length', and pad by DataCollatorWithPadding(tokenizer), "
        "or the collator of the task: up to the batch's longest sequence",
        Remedy.BUCKET: "TrainingArguments(train_sampling_strategy='group_by_length'), of transformers 4 group_by_length=True, with a "
        "collator that pads up to the batch's longest sequence",
        Remedy.ACCUMULATE: _of_arguments("gradient_accumulation_steps"),
        Remedy.FUSED_ADAMW: _of_arguments("optim", "adamw_torch_fused"),
        Remedy.COMPILE: _of_arguments("torch_compile", True),
        Remedy.GRAPHS: _of_arguments("torch_compile_mode", "reduce-overhead"),
        Remedy.BFLOAT16: _of_arguments("bf16", True),
        Remedy.FLOAT16: _of_arguments("fp16", True),
        Remedy.TF32: _of_arguments("tf32", True),
        Remedy.DEVICE: _of_arguments("use_cpu", False),
        Remedy.VALIDATION_BY_STEPS: _of_arguments("eval_strategy", "steps"),
        Remedy.VALIDATION_STEPS: _of_arguments("eval_steps"),
        Remedy.VALIDATION_BATCH_SIZE: _of_arguments("per_device_eval_batch_size"),
        Remedy.CHECKPOINT_BY_STEPS: _of_arguments("save_strategy", "steps"),
        Remedy.CHECKPOINT_STEPS: _of_arguments("save_steps"),
        Remedy.CHECKPOINT_WEIGHTS: _of_arguments("save_only_model", True),
        Remedy.LOGGING_STEPS: _of_arguments("logging_steps"),
        Remedy.PROGRESS_BAR: _of_arguments("disable_tqdm", True),
        Remedy.DETERMINISM: _of_arguments("full_determinism", False),
    },
)
