"""What Kineto's words mean: categories of events, directions of copies, element types, marks of steps."""

from __future__ import annotations

import re
from typing import Any, Final

# Category in lower case -> group. PyTorch 1.8 to 1.11 wrote them with a capital (`Operator`, `Kernel`, `Memcpy`, `Runtime`); names as in
# libkineto's list of activity types.
GROUPS: Final = {
    "cpu_op": "operator",
    "operator": "operator",
    "function": "operator",
    "user_annotation": "annotation",
    "user_scope": "annotation",
    "cuda_runtime": "runtime",
    "runtime": "runtime",
    "hip_runtime": "runtime",
    "mtia_runtime": "runtime",
    "glow_runtime": "runtime",
    "xpu_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "cuda_driver": "driver",
    "driver": "driver",
    "xpu_driver": "driver",
    "privateuse1_driver": "driver",
    "python_function": "python",
    "overhead": "overhead",
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "mtia_ccp_events": "kernel",
    "hpu_op": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memcpy2": "copy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cpu_instant_event": "memory",
    "async_cpu_to_gpu": "unused",
    "ac2g": "unused",
    "async_gpu": "unused",
    "fwdbwd": "unused",
    "forward_backward": "unused",
    "gpu_user_annotation": "unused",
    "cuda_sync": "unused",
    "cuda_event": "unused",
    "external_correlation": "unused",
    "trace": "unused",
}
HOST_GROUPS: Final = ("operator", "runtime", "driver", "annotation", "python", "overhead")

# No more digits than 64 bits hold.
STEP: Final = re.compile(r"ProfilerStep[#*](\d{1,18})\Z")
MEMORY: Final = "[memory]"
COLLECTIVE_OPERATOR: Final = "record_param_comms"
DEVICE_TYPE_HOST: Final = 0  # c10::DeviceType::CPU

_DIRECTION = re.compile(r"([HDAP])\s?to\s?([HDAP])", re.IGNORECASE)
_WORDS = re.compile(
    r"(pageable|pinned|host|device|peer)\w*\s*->\s*(pageable|pinned|host|device|peer)|(host|device)to(host|device)", re.IGNORECASE
)
_FAR = {"h": "host", "d": "device", "a": "device", "p": "peer", "pageable": "host", "pinned": "host"}
_DIRECTIONS = {
    ("host", "device"): "h2d",
    ("device", "host"): "d2h",
    ("device", "device"): "d2d",
    ("peer", "peer"): "p2p",
    ("device", "peer"): "p2p",
    ("peer", "device"): "p2p",
}


def copy_direction(name: str, kind: Any) -> str | None:
    """Direction of a copy from its name, else from its `kind`; None where neither tells, or it stays on the host."""
    for text in (name, str(kind)):
        for pattern in (_DIRECTION, _WORDS):
            if match := pattern.search(text):
                ends = [end.lower() for end in match.groups() if end]
                return _DIRECTIONS.get((_FAR.get(ends[0], ends[0]), _FAR.get(ends[1], ends[1])))
    return None


def is_pageable(name: str) -> bool | None:
    """Whether the host side of a copy is pageable memory; None where its name does not say."""
    low = name.lower()
    return True if "pageable" in low else False if "pinned" in low else None
