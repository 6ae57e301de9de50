"""What the calls of the devices' runtimes and drivers do, by name: CUDA's (`cuda`, `cu`) and ROCm's (`hip`)."""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.timeline.timeline import Timeline, found_once

# Versions of a call end in `_v7000` and `_ptsz` (per-thread streams), as Nsight Systems writes them.
LAUNCHES_KERNEL: Final = (
    r"^(cuda|cu|hip)(Ext|Module|ExtModule)?(Launch(Cooperative)?Kernel|LaunchDevice|LaunchHostFunc|HccModuleLaunchKernel)"
)
LAUNCHES_GRAPH: Final = r"^(cuda|cu|hip)GraphLaunch"
# Of those that launch, the one that launches a function of the host.
RUNS_ON_HOST: Final = r"^(cuda|cu|hip)LaunchHostFunc"
BEGINS_CAPTURE: Final = r"^(cuda|cu|hip)StreamBeginCapture"
ENDS_CAPTURE: Final = r"^(cuda|cu|hip)StreamEndCapture"
COPIES_OR_FILLS: Final = r"^(cuda|cu|hip)Mem(cpy|set)"
LAUNCHES_WORK: Final = f"{LAUNCHES_KERNEL}|{LAUNCHES_GRAPH}|{COPIES_OR_FILLS}"

CALL_KINDS: Final = ("runtime", "driver")

WAITS: Final = r"^(cuda|hip)(Device|Stream|Event|Thread)Synchronize|^(cu|hip)(Ctx|Stream|Event)Synchronize"
# Copies that return when they are done: those without Async in their name, but for the ones inside the device.
COPIES_AND_WAITS: Final = (
    r"^(cuda|hip)Memcpy(2D|3D|ToSymbol|FromSymbol|WithStream|ToArray|FromArray)?(_v\d+|_ptds)*$|^cu(Memcpy|MemcpyHtoD|MemcpyDtoH)(_v\d+)*$"
)
# Calls that allocate or free memory of the device, or pinned memory of the host. PyTorch's and others' allocators keep what they once had,
# so that a training in its steady state needs none.
ALLOCATES: Final = (
    r"^(cuda|hip)(Malloc|Free)(Async|Pitch|Array|Host|Managed|3D|FromPoolAsync)?(_v\d+|_ptsz)*$|^(cuda|hip)Host(Alloc|Malloc|Free|Register|Unregister)"
    r"|^cuMem(Alloc|Free|Create|Map|Unmap|Release|SetAccess|Address(Reserve|Free))|^hipMem(Create|Map|Unmap|Release|SetAccess)|^hipExtMalloc"
)
# Of them, those that wait until the device has done all that was launched (CUDA C++ Programming Guide, implicit synchronization;
# CUDA Runtime API, cudaFree).
ALLOCATES_AND_WAITS: Final = (
    r"^(cuda|hip)(Malloc|Free)(Pitch|Array|Host|3D)?(_v\d+|_ptsz)*$|^(cuda|hip)Host(Alloc|Malloc|Free)|^cuMem(Alloc|Free)(Host)?(_v\d+)*$"
)
# A runtime call of these does nothing that a wait could be for: between a copy and the wait for it they may stand.
ASKS: Final = (
    r"GetLastError|PeekAtLastError|GetDevice|SetDevice|GetAttribute|PointerGet|CtxGet|CtxSet|IsCapturing|GetCaptureInfo|EventRecord"
)


@found_once
def calls_of_runtime(timeline: Timeline) -> pl.DataFrame:
    """The host events that are calls of a runtime or a driver: `thread`, `start_ns`, `end_ns`, `kind`, `name`, `correlation`."""
    return timeline.rows("host_events", "thread", "start_ns", "end_ns", "kind", "name", "correlation", kinds=CALL_KINDS)


def outer_calls(calls: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """One call for each value of the keys. A call of the runtime may be traced once more as the call of the driver that it makes: the outer
    one counts.
    """
    return calls.sort("kind", "start_ns", "end_ns", "thread").unique(keys, keep="first", maintain_order=True)
