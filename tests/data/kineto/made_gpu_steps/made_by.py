"""Makes trace.json.gz: three steps of an A100 as torch.profiler writes them, with a problem of each kind that no real trace at hand has.

Each step copies its batch from pageable memory, multiplies 16-bit matrices of odd sizes, gives memory back and allocates it again, copies
the same class weights once more and something within the device, sums fifteen small gradients among four ranks, asks the gradient scaler
whether they overflowed, reads eight MiB back, and does something on the host before the next one.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOST, DEVICE, STREAM, OF_RANKS = 100, 0, 7, 20
GEMM = "cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x2_tn_align1"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, at::detail::Array<char*, 3> >"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
MIB = 1 << 20


class Trace:
    """What one thread does, and its device, in us."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now, self.number = 1_000_000.0, 0
        self.free = dict.fromkeys((STREAM, OF_RANKS), 0.0)

    @contextmanager
    def inside(self, name: str, category: str = "cpu_op", **arguments: Any) -> Iterator[None]:
        """An operator, or what the script or the profiler names."""
        begin = self.now
        self.now += 2
        yield
        self.now += 2
        self._host(name, category, begin, **arguments)

    def call(self, name: str, us: float) -> None:
        """A call of the runtime that launches nothing."""
        begin, self.now = self.now, self.now + us
        self._host(name, "cuda_runtime", begin)

    def launch(self, name: str, us: float, category: str = "kernel", stream: int = STREAM, **arguments: Any) -> None:
        """Work of the device, and the call that asks for it."""
        self.number += 1
        begin, self.now = self.now, self.now + 5
        runs = max(begin + 10, self.free[stream])
        self.free[stream] = runs + us
        called = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel"
        self._host(called, "cuda_runtime", begin, correlation=self.number)
        shape = {"grid": [64, 1, 1], "block": [128, 1, 1], "registers per thread": 64} if category == "kernel" else {}
        self._event(name, category, runs, us, DEVICE, stream, device=0, stream=stream, correlation=self.number, **shape, **arguments)

    def wait(self, stream: int = STREAM) -> None:
        """For all that a stream has."""
        begin, self.now = self.now, max(self.now + 4, self.free[stream] + 6)
        self._host("cudaStreamSynchronize", "cuda_runtime", begin)

    def copy(self, way: str, size: int, us: float, *, blocking: bool) -> None:
        """A copy of so many bytes."""
        self.launch(f"Memcpy {way}", us, "gpu_memcpy", bytes=size)
        if blocking:
            self.wait()

    def _host(self, name: str, category: str, begin: float, **arguments: Any) -> None:
        self._event(name, category, begin, self.now - begin, HOST, HOST, **arguments)

    def _event(self, name: str, category: str, begin: float, us: float, process: int, thread: int, **arguments: Any) -> None:
        row = {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": begin, "dur": us, "args": arguments}
        self.events.append(row)


def shapes(*sizes: list[int], kind: str = "c10::Half") -> dict[str, Any]:
    return {"Input Dims": list(sizes), "Input type": [kind] * len(sizes)}


def step(trace: Trace, number: int) -> None:
    """One step."""
    with trace.inside(f"ProfilerStep#{number}", "user_annotation"):
        with trace.inside("aten::to"), trace.inside("aten::copy_"):
            trace.copy("HtoD (Pageable -> Device)", 32 * MIB, 6000, blocking=True)
        multiply(trace)
        churn(trace)
        with trace.inside("class_weights", "user_annotation"), trace.inside("aten::copy_"):
            trace.copy("HtoD (Pinned -> Device)", 4 * MIB, 1500, blocking=False)
        multiply(trace)
        with trace.inside("aten::clone"), trace.inside("aten::copy_"):
            trace.copy("DtoD (Device -> Device)", 512 * MIB, 2500, blocking=False)
        multiply(trace)
        share(trace)
        update(trace)
        with trace.inside("aten::to"), trace.inside("aten::copy_"):
            trace.copy("DtoH (Device -> Pageable)", 8 * MIB, 2500, blocking=True)
        with trace.inside("aten::mul"):
            trace.launch(ELEMENTWISE, 400)
        trace.now += 4000


def multiply(trace: Trace) -> None:
    with trace.inside("aten::linear"), trace.inside("aten::mm", **shapes([1023, 511], [511, 1001])):
        trace.launch(GEMM, 1800)
    with trace.inside("aten::add", **shapes([1023, 1001], [1023, 1001])):
        trace.launch(ELEMENTWISE, 400)


def churn(trace: Trace) -> None:
    with trace.inside("aten::empty"):
        trace.wait()
        trace.call("cudaFree", 1200)
        trace.call("cudaMalloc", 900)


def share(trace: Trace) -> None:
    trace.free[OF_RANKS] = trace.free[STREAM]
    for _gradient in range(15):
        with trace.inside("nccl:all_reduce", "user_annotation"):
            trace.launch(
                ALL_REDUCE, 200, stream=OF_RANKS,
                **{"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float", "Group size": 4},
            )  # fmt: skip
    trace.free[STREAM] = max(trace.free.values())


def update(trace: Trace) -> None:
    with trace.inside("aten::_amp_foreach_non_finite_check_and_unscale_"):
        trace.launch("void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<1> >", 300)
    with trace.inside("aten::item"), trace.inside("aten::_local_scalar_dense"):
        trace.copy("DtoH (Device -> Pinned)", 4, 2, blocking=True)
    trace.now += 1500
    with trace.inside("Optimizer.step#SGD.step", "user_annotation"), trace.inside("aten::_foreach_add_"):
        trace.launch("void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<2> >", 500)


made = Trace()
for number in range(3):
    step(made, number)
about = {"id": 0, "name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0, "totalGlobalMem": 42505273344}
ranks = {"backend": "nccl", "rank": 0, "world_size": 4}
text = json.dumps({"schemaVersion": 1, "deviceProperties": [about], "distributedInfo": ranks, "traceEvents": made.events})
Path(__file__).with_name("trace.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
