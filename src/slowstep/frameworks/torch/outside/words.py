"""How a script without a trainer writes changes: the arguments of torch's own calls."""

from __future__ import annotations

from slowstep.frameworks._words import Argument, Remedy, Words


def _of_loader(name: str, value: object = None) -> Argument:
    return Argument(call="DataLoader(..., {arguments})", owner="torch.utils.data:DataLoader", name=name, value=value)


WORDS = Words(
    name="torch",
    title="PyTorch",
    arguments={
        Remedy.WORKERS: _of_loader("num_workers"),
        Remedy.PERSISTENT_WORKERS: _of_loader("persistent_workers"),
        Remedy.PREFETCH: _of_loader("prefetch_factor"),
        Remedy.ANY_ORDER: _of_loader("in_order", False),
        Remedy.PIN_MEMORY: _of_loader("pin_memory"),
        Remedy.COPY_AHEAD: ".to(device, non_blocking=True)",
        Remedy.BATCH_SIZE: _of_loader("batch_size"),
        Remedy.ACCUMULATE: "model.no_sync() around all backwards but the last of several",
        Remedy.FUSED: Argument(call="torch.optim.{kind}(..., {arguments})", owner="torch.optim:{kind}", name="fused"),
        Remedy.COMPILE: "torch.compile(model)",
        Remedy.GRAPHS: "torch.compile(model, mode='reduce-overhead')",
        Remedy.BFLOAT16: "with torch.autocast('cuda', dtype=torch.bfloat16): around forward and loss",
        Remedy.FLOAT16: "with torch.autocast('cuda', dtype=torch.float16): around forward and loss, with torch.amp.GradScaler",
        Remedy.TF32: "torch.set_float32_matmul_precision('high') and torch.backends.cudnn.allow_tf32 = True",
        Remedy.DEVICE: 'model.to("cuda"), batch.to("cuda", non_blocking=True) from pinned memory',
        Remedy.ANOMALY: "torch.autograd.set_detect_anomaly(False)",
        Remedy.DETERMINISM: "torch.use_deterministic_algorithms(False)",
    },
)
