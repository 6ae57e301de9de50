"""How a script without a trainer writes changes: the arguments of torch's own calls."""

from __future__ import annotations

from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument, Code, Excluded, Named, Words
from slowstep.frameworks.torch.outside.trace_words import FIXES, RECORDING
from slowstep.parts import PartKind


def _of_loader(name: str, value: object = None, *, forks: bool = False, default: object = ...) -> Argument:
    owner = "torch.utils.data:DataLoader"
    return Argument(call="DataLoader(..., {arguments})", owner=owner, name=name, value=value, forks=forks, default=default)


_PACKAGE = r"[/\\](site|dist)-packages[/\\]torch[/\\]"
_LOADER = r"torch[/\\]utils[/\\]data[/\\]"
# Recordings are read long after they were made, and hold the file names of the slowstep that made them: whoever moves one of these files
# adds its new name, and takes none away.
_OURS = r"slowstep[/\\](frameworks[/\\]torch[/\\]inside[/\\]{now}|record[/\\]{before})\.py$"

WORDS = Words(
    name="torch",
    title="PyTorch",
    loader="DataLoader",
    unseen="no step() of a torch.optim optimizer was called",
    no_losses="no backward pass begins at a single number",
    excluded=(
        Excluded(
            argument="num_workers",
            value=0,
            names=frozenset({"persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context"}),
            why="without workers the call must not be given {name}",
        ),
        Excluded(
            argument="fused",
            value=True,
            names=frozenset({"foreach", "differentiable"}),
            why="with fused=True the call must not be given {name}",
            unless_off=True,
        ),
    ),
    code={
        Code.TRAINS: _PACKAGE,
        Code.COMPUTES: _PACKAGE,
        # Optimizers' own methods are called through the last of these.
        Code.STEPS: _PACKAGE + r"((optim|nn|autograd|amp)[/\\]|_compile\.py$)",
        Code.OPTIMIZERS: r"[/\\]torch[/\\]optim[/\\]",
        Code.OWN_OPTIMIZERS: r"[/\\]torch[/\\]optim[/\\](?!optimizer\.py$|lr_scheduler\.py$)",
        Code.UPDATE: r"torch[/\\]optim[/\\]optimizer\.py$",
        Code.MODEL_CALL: r"torch[/\\]nn[/\\]modules[/\\]module\.py$",
        Code.MODEL_HOOKS: r"[/\\]torch[/\\]utils[/\\]hooks\.py$",
        Code.LAYERS: r"[/\\]torch[/\\]nn[/\\]modules[/\\]",
        Code.OPERATIONS: r"[/\\]torch[/\\]nn[/\\](modules[/\\]|functional\.py$)",
        Code.CONVOLUTIONS: r"torch[/\\]nn[/\\]modules[/\\]conv\.py$",
        Code.RECURRENT: r"torch[/\\]nn[/\\]modules[/\\]rnn\.py$",
        Code.GRADIENTS: r"[/\\]torch[/\\]autograd[/\\]__init__\.py$",
        # What torch.compile writes. (Code of the user's is called from torch/_dynamo, too.)
        Code.GENERATED: r"[/\\]torch[/\\]_(inductor|functorch)[/\\]",
        # Forward graphs are compiled below the first, those of a backward below the others.
        Code.COMPILER: r"[/\\]torch[/\\](_dynamo[/\\]convert_frame|_inductor[/\\](compile_fx|codecache|async_compile))\.py$",
        # Of Python's standard library: anomaly detection calls it from C++.
        Code.WRITES_STACKS: r"[/\\]python\d+(\.\d+)?[/\\]traceback\.py$",
        # As of `@torch.no_grad()`.
        Code.DECORATOR: r"torch[/\\]utils[/\\]_contextlib\.py$",
        Code.LOADER: _LOADER,
        Code.REQUEST: _LOADER + r"dataloader\.py$",
        Code.FETCH: _LOADER + r"_utils[/\\]fetch\.py$",
        Code.WRITES: r"[/\\]torch[/\\]serialization",
        Code.TENSORS: r"^torch[/\\]",
        Code.PICTURES: r"^torchvision[/\\]utils([/\\]|\.py$)",
        Code.METRICS: r"^(torchmetrics|torcheval)[/\\]",
        Code.HOOK_OF_BACKWARD: _OURS.format(now="backward", before=r"hooks[/\\]torch_backward"),
        Code.HOOK_OF_REQUEST: _OURS.format(now="_waits", before="waits"),
        Code.HOOK_OF_COLLATE: _OURS.format(now="_fetches", before="fetches"),
    },
    names={
        Named.MODEL_CALL: r"(^|\.)(__call__|_call_impl|_wrapped_call_impl)$",
        Named.UPDATE_WRAPPER: r"\.<locals>\.wrapper$",
        Named.NEXT_BATCH: r"_BaseDataLoaderIter\.__next__$",
        Named.NEXT_INDICES: r"_next_index$",
        Named.FETCH: r"\.fetch$",
        Named.READS_BACK: r"'(item|tolist|numpy|cpu)' of 'torch",
        Named.WALKS: r"(^|\.)(parameters|named_parameters|buffers|named_buffers|state_dict|load_state_dict|update_parameters)$",
        Named.COPIES: r"^Tensor\.clone$|^torch\.cat$",
        Named.CHANGES: r"^Tensor\.(lerp|mul|add|copy)_$|_foreach_\w+[^_]_$|(^|\.)(load_state_dict|update_parameters)$",
        Named.TENSORS: r"\btorch\b",
        Named.PUTS_TOGETHER: r"\b(tensor|as_tensor|stack|cat)$",
        Named.FORWARD: r"\.forward$",
        # The last names of classes and functions; the last of the second is written between its factors.
        Named.CONVOLVES: r"^(Conv(Transpose)?[123]d|conv(_transpose)?[123]d)$",
        Named.MULTIPLIES: r"^(Linear|linear|matmul|mm|bmm|addmm|baddbmm|@)$",
        Named.ATTENDS: r"^scaled_dot_product_attention$",
        Named.REDUCES_MUCH: r"^(einsum|mv|tensordot|bilinear|cdist|multi_dot|outer|inner|[ir]*h?fft[2n]?|i?stft|(lstm|gru)(_cell)?|"
        r"solve\w*|p?inv|svd\w*|eig\w*|qr|cholesky\w*|matrix_(exp|power)|lstsq|(slog)?det|(arg)?sort|topk|unique\w*)$",
    },
    packages=frozenset(
        {
            *("torch", "torchaudio", "torchdata", "torchmetrics", "torchrec", "torchtext", "torchvision"),
            *("apex", "colossalai", "composer", "deepspeed", "fairscale", "fbgemm_gpu", "flash_attn", "flashinfer", "ignite", "timm"),
            *("transformer_engine", "triton", "vllm", "xformers"),
        }
    ),
    spans={"torch.compile at work": PartKind.COMPILING},
    devices={"cuda_available": "cuda"},
    saver="torch.save",
    left_out=frozenset({"torch.save", "safetensors.torch.save_file"}),
    arguments={
        Remedy.WORKERS: _of_loader("num_workers", forks=True, default=0),
        Remedy.PERSISTENT_WORKERS: _of_loader("persistent_workers", default=False),
        Remedy.PREFETCH: _of_loader("prefetch_factor", default=2),
        Remedy.DIVIDE_STREAM: "have {stream}.__iter__ give the part of the worker that it is in (torch.utils.data.get_worker_info())",
        Remedy.ANY_ORDER: _of_loader("in_order", False),
        Remedy.PIN_MEMORY: _of_loader("pin_memory", default=False),
        Remedy.COPY_AHEAD: ".to(device, non_blocking=True)",
        Remedy.BATCH_SIZE: _of_loader("batch_size", default=1),
        Remedy.WHOLE_BATCHES: "DataLoader(..., sampler=BatchSampler(...), batch_size=None)",
        Remedy.PAD_TO_LONGEST: "pad in collate_fn, up to the batch's longest sequence (torch.nn.utils.rnn.pad_sequence)",
        Remedy.BUCKET: "a batch_sampler that puts sequences of like length into one batch, and padding up to its longest",
        Remedy.SHARE_ONCE: "with model.no_sync(): around forward and backward of all micro-batches of a step but the last",
        Remedy.ACCUMULATE: "model.no_sync() around all backwards but the last of several",
        Remedy.FUSED: Argument(call="torch.optim.{kind}(..., {arguments})", owner="torch.optim:{kind}", name="fused"),
        Remedy.FUSED_OPTIMIZER: "a fused or foreach optimizer",
        Remedy.SPARSE_GRADIENT: "sparse=True in nn.Embedding and nn.EmbeddingBag",
        Remedy.SPARSE_UPDATE: "torch.optim.SparseAdam for the tables and {kind} for the rest",
        Remedy.SPARSE_PLAIN: "torch.optim.{kind} without momentum and weight_decay for the tables",
        Remedy.COMPILE: "torch.compile(model)",
        Remedy.GRAPHS: "torch.compile(model, mode='reduce-overhead')",
        Remedy.NO_NARROW: "leave out torch.autocast, .half() and .bfloat16() on this processor: float32",
        Remedy.NATIVE_NARROW: "torch.autocast('cpu', dtype=torch.bfloat16), for which this processor has instructions",
        Remedy.FLOAT32: "model.float(), and batches as float32 (np.float32 in the dataset, or .float())",
        Remedy.BFLOAT16: "with torch.autocast('cuda', dtype=torch.bfloat16): around forward and loss",
        Remedy.FLOAT16: "with torch.autocast('cuda', dtype=torch.float16): around forward and loss, with torch.amp.GradScaler",
        Remedy.TF32: "torch.set_float32_matmul_precision('high') and torch.backends.cudnn.allow_tf32 = True",
        Remedy.DEVICE: 'model.to("cuda"), batch.to("cuda", non_blocking=True) from pinned memory',
        Remedy.FAST_KERNELS: "torch.backends.mkldnn.enabled = True",
        Remedy.ANOMALY: "torch.autograd.set_detect_anomaly(False)",
        Remedy.DETERMINISM: "torch.use_deterministic_algorithms(False)",
        Remedy.NO_GRADIENTS: "torch.inference_mode()",
        Remedy.NO_GRAPH: "with torch.no_grad(): around the call of {network}, or .requires_grad_(False) of it before the loop",
        Remedy.FREEZE: ".requires_grad_(False) of {network} before the loop: it still passes gradients on",
        Remedy.MAKE_ASIDE: "make the batches in a background thread or process, or by a Dataset that is read by {workers}",
        Remedy.MOVE_ASIDE: "put what {made} into a Dataset's __getitem__ and read it by {workers}",
        Remedy.PACKED_BATCH: "pack the batch into one tensor per type in collate_fn",
        Remedy.COLLATED_TENSORS: "return tensors from collate_fn (torch.from_numpy)",
        Remedy.ONLY_STACK: "only stack tensors (torch.stack, or the default collate function)",
        Remedy.SNAPSHOT_SELDOM: Argument(
            call="StatefulDataLoader(..., {arguments})",
            owner="torchdata.stateful_dataloader:StatefulDataLoader",
            name="snapshot_every_n_steps",
        ),
        Remedy.SMALLER_STATE: "keep what is large out of state_dict(), such as a shuffle buffer that can be filled again",
        Remedy.HAND_OVER: "torch.multiprocessing.set_sharing_strategy('file_system') before the loop: "
        "batches need no help of their worker then",
        Remedy.THREAD_PER_WORKER: "torch.set_num_threads(1), cv2.setNumThreads(0) in worker_init_fn",
        Remedy.INDICES_AT_ONCE: "numpy.random.choice with size=, torch.multinomial",
        Remedy.WEIGHTED_INDICES: "torch.utils.data.WeightedRandomSampler, where it draws by fixed weights",
        Remedy.THREADS: "torch.set_num_threads({threads})",
        Remedy.FEWER_THREADS: "OMP_NUM_THREADS={threads} or torch.set_num_threads({threads})",
        Remedy.FLUSH_DENORMALS: "torch.set_flush_denormal(True) before training",
        Remedy.AVERAGE_AT_ONCE: "torch._foreach_lerp_ where it averages weights, torch._foreach_copy_ into tensors that are kept "
        "where it copies them",
        # Of trainers' own callbacks, of which Lightning has one.
        Remedy.AVERAGED_BY_FRAMEWORK: "torch.optim.swa_utils.get_ema_multi_avg_fn, which Lightning's WeightAveraging takes as multi_avg_fn",
        Remedy.COMPILE_FUNCTION: "torch.compile",
        Remedy.CONVOLUTION_LAYOUT: "channels_last",
        Remedy.KEPT_LOSSES: "losses appended without .item() or .detach()",
        Remedy.KEPT_GRAPHS: "detach() what is kept of earlier steps (a loss, a state), or keep its value by item()",
        Remedy.READBACKS: "read-backs (.item(), .cpu())",
        Remedy.METRICS_AT_END: "gather predictions as tensors and let torchmetrics or one vectorised call judge them at the end",
        Remedy.KEEP_COMPILED: "keep the compiler's cache between runs: TORCHINDUCTOR_CACHE_DIR in a folder that outlives them "
        "(its default is below /tmp), TORCHINDUCTOR_FX_GRAPH_CACHE=1 where torch is older than 2.6; compile fewer shapes",
        Remedy.NOT_COMPILED: "record once with TORCHDYNAMO_DISABLE=1 in the environment, which has them timed",
        Remedy.NAMED_UPDATE: "make the update a function, or the step() of a torch.optim.Optimizer",
        Remedy.BUILT_FOR_DEVICE: "install a torch that is built for it (https://pytorch.org/get-started): "
        "this one has no support for accelerators",
        Remedy.TOLD_BY_HAND: "Updates without a torch.optim optimizer are recorded from the fourth backward pass on. "
        "Or profile a few steps with torch.profiler, prof.step() after each, and give the trace to slowstep analyze.",
        Remedy.PROFILER: "torch.profiler",
        Remedy.PROFILE_FEW: "profile a few steps only: torch.profiler.schedule(wait, warmup, active, repeat=1)",
        **FIXES,
        **RECORDING,
    },
)
