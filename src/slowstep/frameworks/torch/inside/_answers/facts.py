"""What torch would use of this machine, and which of several processes this one is. Never initialises CUDA: a process that forks
afterwards could not use it.
"""

from __future__ import annotations

import sys
from typing import Any

from slowstep.record.device.accelerators import accelerators
from slowstep.record.system.facts import cores_allowed


def facts() -> dict[str, Any]:
    """The fields of the note; nothing where torch is not imported."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    version = getattr(torch, "version", None)
    return {
        "threads": torch.get_num_threads(),
        "interop": torch.get_num_interop_threads(),
        "cores": cores_allowed(),
        "accelerators": accelerators(),
        "accelerator_built": bool(getattr(version, "cuda", None) or getattr(version, "hip", None)),
        **_available(torch),
        **_process_group(torch.distributed),
    }


def _available(torch: Any) -> dict[str, Any]:
    """Whether CUDA is there, as far as that is known without asking its driver."""
    if not torch.backends.cuda.is_built():
        return {"cuda_available": False}
    return {"cuda_available": True} if torch.cuda.is_initialized() else {}


def _process_group(distributed: Any) -> dict[str, Any]:
    if not (distributed.is_available() and distributed.is_initialized()):
        return {}
    return {"world_size": distributed.get_world_size(), "rank": distributed.get_rank()}


def rank() -> tuple[int, int] | None:
    """Number and size in the process group; None where there is none. Raises what torch does."""
    module = sys.modules.get("torch.distributed")
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return int(module.get_rank()), int(module.get_world_size())
