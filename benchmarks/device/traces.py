"""Small real traces as test data: two or three training steps of several kinds, under 1 MB each, with stacks and shapes.

Written into FOLDER/traces: of torch.profiler a vision and a language model, torch.compile, a CUDA graph and mixed precision; an export of
Nsight Systems where nsys is here; JAX's and TensorFlow's XPlane files where those are installed with the device.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from part import Result, begin
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

MOST_BYTES = 1_000_000
WARMUP_STEPS, STEPS = 3, 2
SECONDS_PER_TRACE = 12.0
# Of another framework, in a process of its own: two steps of a small training, traced by the framework's own profiler.
JAX = """
import sys, jax, jax.numpy as jnp
assert jax.default_backend() == "gpu"
weights = jnp.ones((1024, 1024))
@jax.jit
def step(weights, batch):
    return weights - 1e-3 * jax.grad(lambda w: jnp.square(jnp.tanh(batch @ w)).mean())(weights)
weights = step(weights, jnp.ones((256, 1024)))
with jax.profiler.trace(sys.argv[1]):
    for number in range(3):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            weights = step(weights, jnp.ones((256, 1024)))
            weights.block_until_ready()
"""
TENSORFLOW = """
import sys, tensorflow as tf
assert tf.config.list_physical_devices("GPU")
model = tf.keras.Sequential([tf.keras.layers.Dense(512, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones((640, 512)), tf.ones((640, 1)))).batch(64)
model.fit(data, verbose=0)
tf.profiler.experimental.start(sys.argv[1])
model.fit(data.take(3), verbose=0)
tf.profiler.experimental.stop()
"""


class Block(nn.Module):
    """One layer of a small language model."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.feed = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        result: torch.Tensor = tokens + self.feed(tokens)
        return result


def vision() -> tuple[nn.Module, torch.Tensor]:
    """A small convolutional network and its frames, on the host as they come from a loader."""
    layers = [nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()) for _ in range(3)]
    return nn.Sequential(nn.Conv2d(3, 32, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)), torch.rand(32, 3, 64, 64)


def language() -> tuple[nn.Module, torch.Tensor]:
    """A small transformer and its tokens."""
    return nn.Sequential(nn.Embedding(1000, 256), Block(), Block(), nn.Linear(256, 1000)), torch.randint(0, 1000, (8, 128))


def stepper(model: nn.Module, batch: torch.Tensor, *, compiled: bool = False, half: bool = False) -> Callable[[], None]:
    """One training step as a function."""
    model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    forward = torch.compile(model) if compiled else model
    scaler = torch.amp.GradScaler("cuda", enabled=half)

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.float16, enabled=half):
            loss = forward(batch.to("cuda", non_blocking=True)).float().square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss.item()

    return step


def graphed() -> Callable[[], None]:
    """Forward and backward as one CUDA graph."""
    model, batch = vision()
    model, batch = model.to("cuda"), batch.to("cuda")
    forward = torch.cuda.make_graphed_callables(model, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        forward(batch).square().mean().backward()
        optimizer.step()

    return step


KINDS: dict[str, Callable[[], Callable[[], None]]] = {
    "vision": lambda: stepper(*vision()),
    "language": lambda: stepper(*language()),
    "amp": lambda: stepper(*vision(), half=True),
    "cuda-graph": graphed,
    "compile": lambda: stepper(*language(), compiled=True),
}


def write(step: Callable[[], None], path: Path, *, stacks: bool) -> None:
    """A trace of `STEPS` steps."""
    plan = schedule(wait=0, warmup=WARMUP_STEPS, active=STEPS, repeat=1)
    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    ready = lambda p: p.export_chrome_trace(str(path))  # noqa: E731
    with profile(activities=kinds, schedule=plan, record_shapes=True, with_stack=stacks, on_trace_ready=ready) as profiler:
        for _ in range(WARMUP_STEPS + STEPS):
            step()
            profiler.step()


def torch_trace(name: str, folder: Path) -> dict[str, Any]:
    """One kind's trace: with stacks where it is small enough with them."""
    step, path = KINDS[name](), folder / f"{name}.pt.trace.json.gz"
    step()
    for stacks in (True, False):
        write(step, path, stacks=stacks)
        if path.stat().st_size <= MOST_BYTES:
            return {"bytes": path.stat().st_size, "stacks": stacks}
    size = path.stat().st_size
    path.unlink()
    return {"failed": f"{size} bytes are more than test data may have"}


def framework_trace(name: str, source: str, folder: Path) -> dict[str, Any]:
    """The XPlane file of another framework's small training, gzipped."""
    with tempfile.TemporaryDirectory() as place:
        ended = subprocess.run([sys.executable, "-c", source, place], capture_output=True, text=True, timeout=40, check=False)
        files = sorted(Path(place).rglob("*.xplane.pb"))
        if ended.returncode or not files:
            return {"skipped": (ended.stderr.strip().splitlines() or ["no XPlane file was written"])[-1][:200]}
        target = folder / f"{name}.xplane.pb.gz"
        target.write_bytes(gzip.compress(files[0].read_bytes()))
    return {"bytes": target.stat().st_size}


def nsight_trace(folder: Path) -> dict[str, Any]:
    """An export of Nsight Systems of a few steps."""
    tool = shutil.which("nsys")
    if tool is None:
        return {"skipped": "nsys is not installed"}
    script = Path(__file__).with_name("cases.py")
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "steps"
        words = [
            tool,
            "profile",
            "--trace=cuda,nvtx,osrt",
            "-o",
            str(report),
            sys.executable,
            str(script),
            "--case",
            "small-batch",
            "--steps",
            "8",
        ]
        subprocess.run(words, capture_output=True, timeout=60, check=True)
        export = [tool, "export", "--type", "sqlite", "-o", f"{report}.sqlite", f"{report}.nsys-rep"]
        subprocess.run(export, capture_output=True, timeout=60, check=True)
        target = folder / "nsight.sqlite.gz"
        target.write_bytes(gzip.compress(Path(f"{report}.sqlite").read_bytes()))
    return {"bytes": target.stat().st_size}


def main() -> None:
    """Each kind, as long as there is time; one that fails costs no other."""
    result = begin(__doc__ or "")
    folder = result.folder / "traces"
    folder.mkdir(exist_ok=True)
    made: dict[str, Callable[[], dict[str, Any]]] = {name: lambda name=name: torch_trace(name, folder) for name in KINDS}
    made |= {"jax": lambda: framework_trace("jax", JAX, folder), "tensorflow": lambda: framework_trace("tensorflow", TENSORFLOW, folder)}
    made |= {"nsight": lambda: nsight_trace(folder)}
    for name, make in made.items():
        keep(result, name, make)


def keep(result: Result, name: str, make: Callable[[], dict[str, Any]]) -> None:
    """Keep what one trace is, or why there is none."""
    if not result.has_time(SECONDS_PER_TRACE):
        result.add(name, {"skipped": "no time left"})
        return
    try:
        result.add(name, make())
    except Exception as error:  # noqa: BLE001 - the other traces are worth having
        result.add(name, {"failed": f"{type(error).__name__}: {error}"[:300]})


if __name__ == "__main__":
    main()
