"""The names that events of PyTorch have in traces of its profiler, and of others that see its ranges."""

from __future__ import annotations

from typing import Final

from slowstep.frameworks._events import BatchInputs, Event, Operator, Takes, TraceEvents

# Views, shapes, allocation, copies that may turn out not to be needed, reading one number.
_COMPUTES_NOTHING: Final = (
    r"^aten::(_?(unsafe_)?view(_as)?|_?reshape(_alias|_as)?|expand(_as)?|t|transpose|permute|slice|narrow|select|split(_with_sizes)?|"
    r"chunk|tensor_split|unbind|unflatten|flatten|squeeze|unsqueeze|as_strided|detach|alias|lift(_fresh)?|movedim|swapaxes|"
    r"diagonal|unfold|empty.*|new_empty.*|resize_.*|set_|result_type|is_\w+|item|_local_scalar_dense|contiguous|to|_to_copy|"
    r"type_as|record_stream|size|stride|numel|dim|requires_grad_|retain_grad|data|can_cast|_has_compatible.*|_version|"
    r"output_nr|_nested.*|_cudnn_init.*|_?use_cudnn.*|_fused_sdp_choice|(un)?flatten_dense_tensors|broadcast_tensors|dropout|"
    r"real|imag|conj|_conj|resolve_(conj|neg)|matrix_H|mT|mH|numpy_T|pin_memory|_pin_memory)_?$"
)
_CONVOLUTIONS: Final = (
    *("_convolution", "convolution", "thnn_conv2d"),
    *(f"conv{transposed}{dimensions}d" for transposed in ("", "_transpose") for dimensions in (1, 2, 3)),
    *(
        f"{library}_{depthwise}convolution{more}"
        for library in ("cudnn", "miopen")
        for depthwise in ("", "depthwise_")
        for more in ("", "_transpose", "_relu")
    ),
)

TRACE_EVENTS = TraceEvents(
    name="torch",
    patterns={
        # Autograd's nodes, gradient functions, operators of optimizers.
        Event.TRAINS: r"^autograd::engine::evaluate_function|^(struct )?torch::autograd::|^[A-Z]\w*Backward\d*$|_backward$|_backward_data$"
        r"|^CompiledFunctionBackward|^aten::_(fused|foreach)_(adam|adamw|sgd|adagrad)|^Optimizer\.zero_grad#",
        Event.BACKWARD: r"^autograd::engine::evaluate_function|Backward\d*$",
        # The engine wraps operators in nodes that are named in the same way.
        Event.GRADIENT_NODE: r"^(autograd::engine|(struct )?torch::autograd)|Backward\d*$",
        Event.ENGINE: r"^(autograd::|(struct )?torch::autograd::)",
        Event.ENGINE_WAIT: r"^autograd::engine|DistributedDataParallel",
        Event.UPDATE: r"^Optimizer\.step#",
        # The tracer writes the class, and a number of its own.
        Event.MODULE: r"^nn\.Module: ",
        # Modules and Python's frames of them, optimizers, compiled parts, wrappers of models.
        Event.MODEL: r"nn\.Module|torch/(nn|optim|autograd|_dynamo)/|^Optimizer\.|^Torch-Compiled|DistributedDataParallel|FSDP",
        # The first: by TorchRec around its exchange of inputs.
        Event.OWN: r"^(## \w*(all_?(2|to)_?all|_dist|permute|copy_batch|prefetch)|ProfilerStep|PyTorch Profiler|Iteration Start|Optimizer\."
        r"|nn\.Module|Torch-Compiled|TorchDynamo|DistributedDataParallel|record_param_comms)|(?i:zero_?grad|clip_?grad)",
        # `enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__`
        Event.INPUT_WAIT: r"^enumerate\(DataLoader\)|DataLoader.*__next__$",
        Event.INPUT_WAIT_FUNCTION: r"torch/utils/data/dataloader\.py\(\d+\): __next__$",
        Event.LOADER_REQUEST: r"^enumerate\(DataLoader\)",
        Event.REQUEST_ALONE: r"SingleProcessDataLoaderIter",
        Event.CHECKPOINT_FUNCTION: r"torch/serialization\.py\(\d+\): save$|safetensors/torch\.py\(\d+\): save_(file|model)$"
        r"|torch/distributed/checkpoint/\w+\.py\(\d+\): (async_)?save(_state_dict)?$",
        # TorchDynamo marks all its phases by "(dynamo_timed)" (torch/_dynamo/utils.py); since 2.6 it gives the outermost of them names of
        # their own, as seen in a trace of torch 2.13. "Torch-Compiled Region" and "TorchDynamo Cache Lookup" run what was compiled before.
        Event.COMPILATION: r"\(dynamo_timed\)$|^entire_(frame|backward)_compile$",
        Event.COMPILATION_FUNCTION: r"torch/_dynamo/convert_frame\.py\S* _compile$|torch/_inductor/compile_fx\.py\S* compile_fx$",
        Event.BUILD_FUNCTION: r"torch/utils/cpp_extension\.py\S* load(_inline)?$",
        Event.COLLECTIVE: r"^c10d::|^record_param_comms$|^_?c10d_functional(_autograd)?::",
        # Inductor (triton_poi_fused_...), nvFuser, and the fuser of TorchScript.
        Event.FUSED: r"(?i:^triton_|fused|nvfuser|^kernel\d+$|CudaCodeGen)",
        # Operators that call the libraries of one make of devices, and the collectives of these. Recurrent layers ask on every device
        # whether cuDNN could be used (`cudnn_is_acceptable`).
        Event.ON_DEVICE: r"^aten::_?(cudnn|miopen)_([^i]|i[^s])|^(nccl|rccl):",
        Event.COMPUTES_NOTHING: _COMPUTES_NOTHING,
        # Nodes of autograd, collectives and hooks.
        Event.NO_OPERATOR: r"^(autograd|c10d|torch|profiler)::|Backward",
        # aten/src/ATen/native/cuda: Copy.cu, CUDAScalar.cu, Nonzero.cu.
        Event.COPY_AND_WAIT: r"^aten::(copy_|_local_scalar_dense|nonzero)$",
        Event.NEEDS_ANSWER: r"^aten::(nonzero|_unique|unique|masked_select|repeat_interleave|index|bincount|is_nonzero|allclose|equal)",
        # torch.amp.GradScaler divides the gradients by its factor and looks for infinities on the device; `scaler.step` then reads the
        # answer with `.item()` before it calls the optimizer (torch/amp/grad_scaler.py, `_maybe_opt_step`).
        Event.SCALE_CHECK: r"^aten::_amp_foreach_non_finite_check_and_unscale_",
        Event.SCALE_READ: r"^aten::item$",
        Event.SCALE_FOLLOWS: r"^Optimizer\.step#|^aten::_amp_update_scale_",
        Event.SCALE_UPDATE: r"^aten::_amp_update_scale_",
        # The hooks of FSDP (`FSDP::pre_forward`, `FSDP::unshard`), optimizers.
        Event.PARAMETERS: r"(?i:fsdp|fully_?shard|Optimizer\.step|torch/optim/)",
    },
    operators={
        **dict.fromkeys(("aten::mm", "aten::bmm", "aten::matmul", "aten::_int_mm", "aten::_scaled_mm"), Operator(Takes.FACTORS, (0, 1))),
        **dict.fromkeys(("aten::addmm", "aten::baddbmm", "aten::addbmm", "aten::_addmm_activation"), Operator(Takes.FACTORS, (1, 2))),
        **dict.fromkeys(("aten::mv", "aten::addmv", "aten::dot", "aten::vdot", "aten::addr", "aten::ger"), Operator(Takes.VECTOR)),
        **dict.fromkeys((f"aten::{name}" for name in _CONVOLUTIONS), Operator(Takes.WEIGHT, (1,))),
        "aten::convolution_backward": Operator(Takes.WEIGHT, (2,)),
        "aten::linear": Operator(Takes.ROWS, (0, 1)),
    },
    batches=BatchInputs(
        # An embedding looks up (samples, positions).
        samples={"aten::conv1d": (0, 3), "aten::conv2d": (0, 4), "aten::conv3d": (0, 5), "aten::embedding": (1, 2)},
        rows=frozenset({"aten::linear"}),
        moves=frozenset({"aten::to", "aten::_to_copy"}),
    ),
)
