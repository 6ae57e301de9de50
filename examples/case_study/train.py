"""Train a small image segmentation on files; `--variant` plants one performance problem (see ../README.md)."""

import argparse
import json
import os
import tempfile
import time
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from PIL import Image
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset

from data import CLASSES, FILE_SIZE, ShapesDataset, augment_default, augment_slow, collate_slow, make_files
from input_problems import HALF, THOROUGH, ImageServer, OverloadedDataset, ServedDataset, TiledDataset, make_tiles
from model import SegmentationNet
from time_problems import History, load_lexicon, make_validation, validate, with_large_pictures
from work_problems import edge_weights, edge_weights_pixel_by_pixel, log_every_channel, open_log, weighted_loss

WARMUP_STEPS = 20
INPUTS = ("files", "served", "overloaded", "half-loaded", "tiles", "one-file", "made-before")
MADE_BEFORE = 16  # batches, given out again and again
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The healthy base."""

    workers: int = 1
    batch_size: int = 16
    collate: str = "default"
    augment: str = "default"
    post_process: str = "off"
    checkpoint_every: int = 0
    read_latency_ms: float = 0.0
    input: str = "files"
    served_mb_per_s: float = 0.0
    edge_weights: str = "off"
    dtype: str = "float32"
    threads: int = 1
    log_channels: str = "off"
    history: str = "off"
    validate_every: int = 0
    large_pictures: str = "off"
    lexicon: str = "off"
    persistent: str = "on"
    steps: int = 190


BASE = Settings()
VARIANTS = {
    "healthy": BASE,
    "serial-loader": replace(BASE, workers=0, steps=125),
    "too-few-workers": replace(BASE, workers=2, read_latency_ms=4.0, steps=110),
    "slow-collate": replace(BASE, collate="slow", steps=125),
    "slow-transform": replace(BASE, augment="slow", steps=90),
    "small-batch": replace(BASE, batch_size=3, steps=1100),
    "slow-callback": replace(BASE, post_process="on", steps=125),
    "blocking-checkpoint": replace(BASE, checkpoint_every=1, steps=150),
    "network-input": replace(BASE, workers=2, input="served", served_mb_per_s=4.0, steps=100),
    "overloaded-preprocessing": replace(BASE, workers=CORES, input="overloaded", steps=90),
    "many-small-files": replace(BASE, input="tiles", steps=110),
    "inefficient-operation": replace(BASE, edge_weights="slow", steps=125),
    "double-precision": replace(BASE, dtype="float64", steps=125),
    "chatty-logging": replace(BASE, log_channels="on", steps=125),
    "too-many-threads": replace(BASE, threads=16, steps=45),
    "too-few-threads": replace(BASE, batch_size=32, steps=60),
    # What is written takes four times as long at the end: a shared machine is half as fast for seconds, which is no growth.
    "growing-history": replace(BASE, history="rewrite", steps=250),
    "frequent-validation": replace(BASE, validate_every=5, steps=150),
    "straggler-sample": replace(BASE, large_pictures="on", steps=150),
    "worker-restart": replace(BASE, workers=2, lexicon="on", persistent="off", steps=150),
}


def read_command_line() -> tuple[argparse.Namespace, Settings]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=VARIANTS, default="healthy")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--collate", choices=["default", "slow"])
    parser.add_argument("--augment", choices=["default", "slow"])
    parser.add_argument("--post-process", choices=["off", "on"], help="write the predicted masks as images after every step")
    parser.add_argument("--checkpoint-every", type=int, help="steps; 0: only at the end")
    parser.add_argument("--read-latency-ms", type=float, help="added to the reading of every file, as a network file system does")
    parser.add_argument("--input", choices=INPUTS, help="where samples come from, and what is done to them")
    parser.add_argument("--served-mb-per-s", type=float, help="limit of the server's line with --input served; 0: none")
    parser.add_argument("--edge-weights", choices=["off", "fast", "slow"], help="pixels at edges count more in the loss")
    parser.add_argument("--dtype", choices=["float32", "float64"], help="of the model and the pictures")
    parser.add_argument("--log-channels", choices=["off", "on"], help="log the norm of every channel after every step")
    parser.add_argument("--history", choices=["off", "append", "rewrite"], help="write what was measured to a JSON file after every step")
    parser.add_argument("--validate-every", type=int, help="steps; 0: never")
    parser.add_argument("--large-pictures", choices=["off", "on"], help="one picture in 60 has a hundred times the pixels")
    parser.add_argument("--lexicon", choices=["off", "on"], help="every worker loads a table before its first batch")
    parser.add_argument("--persistent", choices=["off", "on"], help="whether workers outlive the epoch")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data", help="where the pictures are kept")
    parser.add_argument("--output", type=Path, help="checkpoints and mask images; default: a temporary folder")
    arguments = parser.parse_args()
    given = {name: getattr(arguments, name) for name in Settings.__dataclass_fields__ if getattr(arguments, name) is not None}
    return arguments, replace(VARIANTS[arguments.variant], **given)


def make_dataset(settings: Settings, folder: Path, server: ImageServer | None) -> Dataset:
    augment = augment_slow if settings.augment == "slow" else augment_default
    folder = with_large_pictures(folder) if settings.large_pictures == "on" else folder
    if server is not None:
        return ServedDataset(folder, augment, server.port)
    if settings.input in ("overloaded", "half-loaded"):
        return OverloadedDataset(folder, augment, CORES, THOROUGH if settings.input == "overloaded" else HALF)
    if settings.input in ("tiles", "one-file"):
        return TiledDataset(folder, augment, make_tiles(folder), one_file=settings.input == "one-file")
    return ShapesDataset(folder, augment, settings.read_latency_ms)


def make_loader(settings: Settings, dataset: Dataset) -> DataLoader | list:
    loader = DataLoader(
        dataset,
        batch_size=settings.batch_size,
        shuffle=True,
        num_workers=settings.workers,
        persistent_workers=settings.workers > 0 and settings.persistent == "on",
        worker_init_fn=load_lexicon if settings.lexicon == "on" else None,
        collate_fn=collate_slow if settings.collate == "slow" else None,
    )
    return list(islice(loader, MADE_BEFORE)) if settings.input == "made-before" else loader


def loss_of(logits: torch.Tensor, masks: torch.Tensor, settings: Settings) -> torch.Tensor:
    if settings.edge_weights == "off":
        return nn.functional.cross_entropy(logits, masks)
    weigh = edge_weights_pixel_by_pixel if settings.edge_weights == "slow" else edge_weights
    return weighted_loss(logits, masks, weigh(masks).to(logits.dtype))


def save_mask_images(logits: torch.Tensor, folder: Path) -> None:
    """Write the predicted mask of every picture of the batch, in the size of its file."""
    for index, mask in enumerate(logits.detach().argmax(dim=1).byte().numpy()):
        image = Image.fromarray(mask * (255 // CLASSES)).resize((FILE_SIZE, FILE_SIZE), Image.Resampling.NEAREST)
        image.save(folder / f"mask-{index:02}.png")


def save_checkpoint(path: Path, step: int, model: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    state = {"step": step, "model": model.state_dict(), "average": average.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path)


def train(settings: Settings, loader: DataLoader, output: Path) -> dict[str, float]:
    dtype = getattr(torch, settings.dtype)
    model = SegmentationNet(CLASSES).to(dtype)
    logger = open_log(output)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history = History(output / "history.json")
    validation = make_validation(loader.dataset, settings.batch_size) if settings.validate_every else None
    step = samples = 0
    started = time.perf_counter()
    while step < settings.steps:
        for images, masks in loader:
            optimizer.zero_grad()
            logits = model(images.to(dtype))
            loss = loss_of(logits, masks, settings)
            loss.backward()
            optimizer.step()
            average.update_parameters(model)
            step += 1
            samples += len(images)
            if settings.post_process == "on":
                save_mask_images(logits, output)
            if settings.log_channels == "on":
                log_every_channel(logger, step, model)
            if settings.history != "off":
                history.add(step, loss.item(), logits)
                history.rewrite() if settings.history == "rewrite" else history.append()
            if settings.validate_every and step % settings.validate_every == 0:
                validate(model, validation)
            if settings.checkpoint_every and step % settings.checkpoint_every == 0:
                save_checkpoint(output / "latest.pt", step, model, average, optimizer)
            if step % 20 == 0:
                print(f"step {step}: loss {loss.item():.4f}", flush=True)
            if step == WARMUP_STEPS:
                samples, started = 0, time.perf_counter()
            if step == settings.steps:
                break
    samples_per_s = samples / (time.perf_counter() - started)
    save_checkpoint(output / "final.pt", step, model, average, optimizer)
    return {"steps": step, "samples_per_s": samples_per_s, "loss": loss.item()}


def main() -> None:
    arguments, settings = read_command_line()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(settings.threads)
    folder = make_files(arguments.data)
    server = ImageServer(folder, int(settings.served_mb_per_s * 1e6)) if settings.input == "served" else None
    try:
        loader = make_loader(settings, make_dataset(settings, folder, server))
        with tempfile.TemporaryDirectory(prefix="case-study-") as temporary:
            output = arguments.output or Path(temporary)
            output.mkdir(parents=True, exist_ok=True)
            result = train(settings, loader, output)
    finally:
        if server is not None:
            server.close()
    print(json.dumps({"variant": arguments.variant, **result}))


if __name__ == "__main__":
    main()
