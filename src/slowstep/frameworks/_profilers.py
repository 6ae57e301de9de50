"""How more is recorded with profilers that are no framework's, by their names in the facts of a trace."""

from __future__ import annotations

from typing import Final

from slowstep.frameworks._remedies import Remedy

OF_PROFILERS: Final[dict[str | None, dict[Remedy, str]]] = {
    "nsys": {
        Remedy.RECORD_DEVICE: "record it with nsys profile --trace=cuda,nvtx",
        Remedy.RECORD_HOST: "trace the host too, with nsys profile --trace=cuda,nvtx",
        Remedy.RECORD_BOTH: "record with nsys profile --trace=cuda,nvtx",
        Remedy.RECORD_OPERATORS: "record with nsys profile --pytorch=autograd-nvtx",
        Remedy.RECORD_PLACES: "record with nsys profile --pytorch=autograd-nvtx",
        Remedy.RECORD_SHAPES: "record with nsys profile --pytorch=autograd-shapes-nvtx",
        Remedy.RECORD_SHAPES_AND_FUNCTIONS: "record with nsys profile --pytorch=autograd-shapes-nvtx --python-backtrace=cuda",
        Remedy.RECORD_FUNCTIONS: "record with nsys profile --python-backtrace=cuda",
        Remedy.RECORD_COMPILING: "record with nsys profile --trace=cuda,nvtx --python-sampling=true",
        Remedy.RECORD_COLLECTIVES: "record with nsys profile --trace=cuda,nvtx and NCCL_NVTX at its default",
        Remedy.RECORD_SIZES: "record with nsys profile --trace=cuda",
        Remedy.RECORD_PINNED: "record with nsys profile --trace=cuda, on NVIDIA devices",
        Remedy.RECORD_REQUESTS: 'name the wait: with torch.cuda.nvtx.range("get_batch")',
        Remedy.RECORD_LATER: "nsys profile --delay=60",
        Remedy.RECORD_STEPS: "nsys profile --duration with the seconds of five of them",
        Remedy.RECORD_LESS: "record with nsys profile --trace=cuda,nvtx alone",
        Remedy.NAME_RANGE: 'with torch.cuda.nvtx.range("{name}")',
        Remedy.NAME_PRECISION: "look at the types of the model's parameters, and at autocast around it",
        Remedy.MARK_STEPS: 'put torch.cuda.nvtx.range(f"step {{n}}") around each step',
    },
}
