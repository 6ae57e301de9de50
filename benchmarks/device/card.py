"""Which accelerator a benchmark found: the card, its driver, and what torch can do with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import machine
import torch


def describe() -> dict[str, Any]:
    """The machine's facts (`machine.py`), and those of its card; `card` is None where torch finds none."""
    facts = machine.describe()
    if not torch.cuda.is_available():
        return facts | {"card": None}
    properties = torch.cuda.get_device_properties(0)
    return facts | {
        "card": properties.name,
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "capability": f"{properties.major}.{properties.minor}",
        "driver": driver(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": torch.backends.cudnn.version(),
    }


def driver() -> str | None:
    """The driver's version, by nvidia-smi; None where that is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    said = subprocess.run([tool, "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    return said.stdout.splitlines()[0].strip() if said.returncode == 0 and said.stdout.strip() else None


def short_name(facts: dict[str, Any]) -> str:
    """The card as a part of a folder's name: `h100-80gb-hbm3`."""
    name = re.sub(r"nvidia|geforce|tesla|amd|instinct|radeon", "", (facts["card"] or "no-device").lower())
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")


def in_words(facts: dict[str, Any]) -> str:
    """One line for people."""
    if facts["card"] is None:
        return f"no device; {machine.in_words(facts)}"
    return f"{facts['card']}, driver {facts['driver']}, CUDA {facts['cuda']}; {machine.in_words(facts)}"
