"""How a script without a trainer writes changes: the arguments of torch's own calls."""

from __future__ import annotations

from slowstep.frameworks._words import Argument, Change, Words


def _of_loader(name: str, value: object = None) -> Argument:
    return Argument(call="DataLoader(..., {arguments})", owner="torch.utils.data:DataLoader", name=name, value=value)


WORDS = Words(
    name="torch",
    title="PyTorch",
    arguments={
        Change.WORKERS: _of_loader("num_workers"),
        Change.PERSISTENT_WORKERS: _of_loader("persistent_workers"),
        Change.PREFETCH: _of_loader("prefetch_factor"),
        Change.ANY_ORDER: _of_loader("in_order", False),
        Change.PIN_MEMORY: _of_loader("pin_memory"),
        Change.COPY_AHEAD: ".to(device, non_blocking=True)",
        Change.BATCH_SIZE: _of_loader("batch_size"),
        Change.ACCUMULATE: "model.no_sync() around all backwards but the last of several",
        Change.FUSED: Argument(call="torch.optim.{kind}(..., {arguments})", owner="torch.optim:{kind}", name="fused"),
        Change.COMPILE: "torch.compile(model)",
        Change.GRAPHS: "torch.compile(model, mode='reduce-overhead')",
        Change.BFLOAT16: "with torch.autocast('cuda', dtype=torch.bfloat16): around forward and loss",
        Change.FLOAT16: "with torch.autocast('cuda', dtype=torch.float16): around forward and loss, with torch.amp.GradScaler",
        Change.TF32: "torch.set_float32_matmul_precision('high') and torch.backends.cudnn.allow_tf32 = True",
        Change.DEVICE: 'model.to("cuda"), batch.to("cuda", non_blocking=True) from pinned memory',
        Change.ANOMALY: "torch.autograd.set_detect_anomaly(False)",
        Change.DETERMINISM: "torch.use_deterministic_algorithms(False)",
    },
)
