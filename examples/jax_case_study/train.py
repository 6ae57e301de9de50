"""Train a small image segmentation in plain JAX; `--variant` plants one performance problem (see ../README.md)."""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from model import init, train_step
from pictures import CLASSES, Batch, batches, make_pictures

WARMUP_STEPS = 20
DRAWN, DRAWN_SIZE = 64, 96


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The healthy base."""

    batch_size: int = 16
    smooth: str = "off"
    crop: str = "off"
    save_pictures: str = "off"
    read_back: str = "off"
    steps: int = 200


BASE = Settings()
VARIANTS = {
    "healthy": BASE,
    "small-batch": replace(BASE, batch_size=2, steps=600),
    "overloaded-preprocessing": replace(BASE, smooth="on", steps=80),
    "recompiling": replace(BASE, crop="random", steps=60),
    "slow-callback": replace(BASE, save_pictures="on", steps=120),
    "read-back": replace(BASE, read_back="on"),
}


def read_command_line() -> tuple[argparse.Namespace, Settings]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=VARIANTS, default="healthy")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--smooth", choices=["off", "on"], help="smooth each picture before it is trained on")
    parser.add_argument("--crop", choices=["off", "random"], help="train on parts of pictures, of another size in each batch")
    parser.add_argument("--save-pictures", choices=["off", "on"], help="store 64 pictures after every step")
    parser.add_argument("--read-back", choices=["off", "on"], help="read the loss, and the norm of every parameter, after every step")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--output", type=Path, help="pictures that are stored; default: a temporary folder")
    arguments = parser.parse_args()
    given = {name: getattr(arguments, name) for name in Settings.__dataclass_fields__ if getattr(arguments, name) is not None}
    return arguments, replace(VARIANTS[arguments.variant], **given)


def save_random_pictures(folder: Path, rng: np.random.Generator) -> None:
    """Makes and stores 64 pictures, as a look at what a model draws does."""
    for index in range(DRAWN):
        picture = rng.integers(0, 256, (DRAWN_SIZE, DRAWN_SIZE, 3), dtype=np.uint8)
        np.savez_compressed(folder / f"{index}.npz", picture=picture)


def read_norms(state: dict, loss: jax.Array) -> dict[str, float]:
    """One number after the other, for each of which the loop waits."""
    norms = {jax.tree_util.keystr(path): float(jnp.linalg.norm(value)) for path, value in jax.tree.leaves_with_path(state["params"])}
    return {"loss": float(loss), **norms}


def train(settings: Settings, made: Iterator[Batch], output: Path) -> dict[str, float]:
    rng = np.random.default_rng(1)
    state = init(rng, CLASSES)
    started, losses, norms = 0.0, [], {}
    warmup = min(WARMUP_STEPS, settings.steps // 2)
    for step in range(settings.steps):
        images, masks = next(made)
        state, loss = train_step(state, images, masks)
        losses.append(loss)
        if settings.save_pictures == "on":
            save_random_pictures(output, rng)
        if settings.read_back == "on":
            norms = read_norms(state, loss)
        if step + 1 == warmup:
            started = time.perf_counter()
    last = float(losses[-1])
    rate = (settings.steps - warmup) * settings.batch_size / (time.perf_counter() - started)
    return {"steps": settings.steps, "samples_per_s": rate, "loss": last, "norms": len(norms)}


def main() -> None:
    arguments, settings = read_command_line()
    rng = np.random.default_rng(0)
    made = batches(make_pictures(rng), rng, settings.batch_size, settings.smooth, settings.crop)
    with tempfile.TemporaryDirectory(prefix="case-study-") as temporary:
        output = arguments.output or Path(temporary)
        output.mkdir(parents=True, exist_ok=True)
        result = train(settings, made, output)
    print(json.dumps({"variant": arguments.variant, **result}))


if __name__ == "__main__":
    main()
