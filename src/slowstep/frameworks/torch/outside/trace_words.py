"""How users of torch write what a trace asks for: what to change in their steps, and how to record more with torch's profiler."""

from __future__ import annotations

from typing import Final

from slowstep.frameworks._remedies import Remedy

FIXES: Final[dict[Remedy, str]] = {
    Remedy.SCALED_UPDATE: "{FUSED_ADAMW:AdamW(fused=True) or SGD(fused=True)}",
    Remedy.UNSCALED: "{BFLOAT16}, and no loss scaling (GradScaler)",
    Remedy.FUSE_ELEMENTWISE: "{COMPILE}",
    Remedy.FUSED_VARIANTS: "fused variants: {FUSED_ADAMW:AdamW(fused=True)}, torch.nn.functional.scaled_dot_product_attention, "
    "gradients clipped with foreach=True",
    Remedy.STEP_AS_GRAPH: "capture the step as a CUDA graph: torch.cuda.make_graphed_callables, or torch.compile(backend='cudagraphs')",
    Remedy.FUSE_STEP: "{GRAPHS} fuses kernels and launches the rest as a graph; {FUSED_ADAMW:an optimizer with fused=True}",
    Remedy.OVERLAP_COLLECTIVES: "DistributedDataParallel(gradient_as_bucket_view=True, static_graph=True) overlaps with the backward; "
    "FSDP(backward_prefetch=BACKWARD_PRE, limit_all_gathers=True); no torch.distributed call of one's own after backward()",
    Remedy.SMALLER_COLLECTIVES: "send gradients in 16 bit: model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
    Remedy.EXCHANGE_AHEAD: "exchange the next batch's embeddings or experts' tokens while this batch is computed (a prefetching pipeline, "
    "as TorchRec's TrainPipelineSparseDist), or cut them into pieces that overlap with the dense layers",
    Remedy.MERGE_GRADIENTS: "leave gradients to DistributedDataParallel(bucket_cap_mb=25 or more, gradient_as_bucket_view=True), "
    "not one all_reduce each",
    Remedy.MERGE_COLLECTIVES: "one's own: torch.distributed.all_reduce_coalesced, or flatten into one tensor; metrics once in many steps",
    Remedy.SAME_SHAPES: "the same shapes in every step (drop_last=True, padded lengths); TORCH_LOGS=recompiles names the cause",
    Remedy.DECLARE_SHAPES: "declare what changes: torch._dynamo.mark_dynamic(batch, 0), or torch.compile(dynamic=True)",
    Remedy.PINNED_BATCHES: "{PIN_MEMORY+COPY_AHEAD}, both",
    Remedy.PINNED_BUFFER: "for tensors that no loader makes: one buffer made with pin_memory=True, filled with copy_ and used again",
    Remedy.COPY_NEXT_BATCH: "copy the next batch on a stream of its own while this step runs: {PIN_MEMORY+COPY_AHEAD}",
    Remedy.COPY_NARROW: "copy pictures as uint8 and classes as they are; widen them on the device: x.to(device).float().div_(255)",
    Remedy.COPY_NEXT_LAYER: "copy the next layer's parameters while this one computes: FSDP's forward_prefetch=True and "
    "BackwardPrefetch.BACKWARD_PRE, pinned memory (CPUOffloadPolicy(pin_memory=True)); DeepSpeed's stage3_prefetch_bucket_size",
    Remedy.COPY_ONCE: "make it once: register_buffer in the module, or a tensor that was moved to the device before the loop",
    Remedy.MADE_ON_DEVICE: "make it on the device: torch.arange(n, device=x.device), x.new_tensor(...), torch.full_like",
    Remedy.SMALLER_READBACK: "reduce on the device and copy the result (mean, argmax, topk), or copy every k steps",
    Remedy.READBACK_ASIDE: "copy into a pinned buffer: pinned.copy_(x, non_blocking=True) on a stream of its own, and read it a step later",
    Remedy.READ_SELDOM: "add up on the device (total += loss.detach()) and call .item() once in {every} steps",
    Remedy.READ_LATER: "copy into pinned memory without waiting, .to('cpu', non_blocking=True), and read it a step later, after an event",
    Remedy.SIZES_AHEAD: "read sizes and lengths that a step needs for the next batch during this one (torchrec: TrainPipelineSparseDist)",
    Remedy.NO_SYNC: "take torch.cuda.synchronize() out of the step; measure with torch.cuda.Event(enable_timing=True) "
    "and read it a step later",
    Remedy.KNOWN_SIZES: "avoid sizes that only the device knows: torch.where in place of x[mask], nonzero() and unique()",
    Remedy.LAUNCH_FIRST: "launch the next step first, and look at the last step's results while the device works on it",
    Remedy.ALIGNED_CHANNELS: "model and batches .to(memory_format=torch.channels_last), with channels in multiples of 8",
    Remedy.FASTER_CONVOLUTION: "channels_last memory format, and torch.backends.cudnn.benchmark = True where shapes do not change",
    Remedy.FASTER_ATTENTION: "torch.nn.functional.scaled_dot_product_attention, which does attention in one kernel",
    Remedy.FASTER_OPERATION: "another implementation of it: torch.compile, a fused kernel",
    Remedy.GROWING_MEMORY: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, so that segments grow and nothing is freed",
    Remedy.STEADY_MEMORY: "the same shapes in every step (drop_last=True, padded lengths), the largest batch first",
    Remedy.NO_EMPTYING: "no torch.cuda.empty_cache() and no gc.collect() in the loop; a smaller batch where memory is full",
    Remedy.ON_DEVICE: "bring {operator} to the device: make its inputs with device='cuda', or move them there before it",
    Remedy.DATA_ASIDE: "if it prepares data, let the loader's workers do it, a batch ahead",
    Remedy.FEWER_COPIES: "write where the result belongs: out=, in-place, slices of a buffer made once in place of cat, "
    "no needless clone()",
    Remedy.SPARED_COPIES: "DistributedDataParallel(gradient_as_bucket_view=True) spares one copy of each gradient",
    Remedy.BATCHES_ASIDE: "give the loader four workers or more: {workers}",
    Remedy.DEEPER_INPUT: "raise the loader's {workers}, then its {ahead}",
}

RECORDING: Final[dict[Remedy, str]] = {
    Remedy.RECORD_DEVICE: "record it with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    Remedy.RECORD_HOST: "trace the host too, with activities=[CPU, CUDA]",
    Remedy.RECORD_BOTH: "record host and device: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    Remedy.RECORD_OPERATORS: "record with ProfilerActivity.CPU",
    Remedy.RECORD_PLACES: "record host and device: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    Remedy.RECORD_SHAPES: "record with record_shapes=True",
    Remedy.RECORD_SHAPES_AND_FUNCTIONS: "record with record_shapes=True and with_stack=True",
    Remedy.RECORD_FUNCTIONS: "record with with_stack=True",
    Remedy.RECORD_COMPILING: "record the host too (ProfilerActivity.CPU); TORCH_LOGS=recompiles prints each with its cause",
    Remedy.RECORD_COLLECTIVES: "record with record_shapes=True (torch 2.2 and later write the sizes of collectives)",
    Remedy.RECORD_PINNED: "nsys profile --trace=cuda records it on NVIDIA devices; in the script, batch.is_pinned() says so",
    Remedy.RECORD_LESS: "trace again with record_shapes=False and with_stack=False",
    Remedy.RECORD_REQUESTS: 'iterate over a DataLoader while the profiler runs, or name the wait: with record_function("get_batch")',
    Remedy.RECORD_LATER: "torch.profiler.schedule(skip_first=20, wait=1, warmup=3, active=5)",
    Remedy.RECORD_STEPS: "active=5 in torch.profiler.schedule",
    Remedy.MARK_STEPS: "call prof.step() after each update",
    Remedy.NAME_RANGE: 'with record_function("{name}")',
    Remedy.NAME_PRECISION: "record with record_shapes=True",
}
