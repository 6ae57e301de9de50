"""Train a small image segmentation on files; `--variant` plants one performance problem (see ../README.md)."""

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from PIL import Image
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from data import CLASSES, FILE_SIZE, ShapesDataset, augment_default, augment_slow, collate_slow, make_files
from model import SegmentationNet
from time_problems import History, load_lexicon, make_validation, validate, with_large_pictures

WARMUP_STEPS = 20


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
    "too-few-workers": replace(BASE, workers=2, read_latency_ms=2.7, steps=110),
    "slow-collate": replace(BASE, collate="slow", steps=125),
    "slow-transform": replace(BASE, augment="slow", steps=90),
    "small-batch": replace(BASE, batch_size=4, steps=900),
    "slow-callback": replace(BASE, post_process="on", steps=125),
    "blocking-checkpoint": replace(BASE, checkpoint_every=2, steps=150),
    "growing-history": replace(BASE, history="rewrite"),
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
    parser.add_argument("--history", choices=["off", "rewrite"], help="write everything ever measured to a JSON file after every step")
    parser.add_argument("--validate-every", type=int, help="steps; 0: never")
    parser.add_argument("--large-pictures", choices=["off", "on"], help="one picture in 60 has a hundred times the pixels")
    parser.add_argument("--lexicon", choices=["off", "on"], help="every worker loads a table before its first batch")
    parser.add_argument("--persistent", choices=["off", "on"], help="whether workers outlive the epoch")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data", help="where the pictures are kept")
    parser.add_argument("--output", type=Path, help="checkpoints and mask images; default: a temporary folder")
    arguments = parser.parse_args()
    given = {name: getattr(arguments, name) for name in Settings.__dataclass_fields__ if getattr(arguments, name) is not None}
    return arguments, replace(VARIANTS[arguments.variant], **given)


def make_loader(settings: Settings, folder: Path) -> DataLoader:
    augment = augment_slow if settings.augment == "slow" else augment_default
    folder = with_large_pictures(folder) if settings.large_pictures == "on" else folder
    return DataLoader(
        ShapesDataset(folder, augment, settings.read_latency_ms),
        batch_size=settings.batch_size,
        shuffle=True,
        num_workers=settings.workers,
        persistent_workers=settings.workers > 0 and settings.persistent == "on",
        worker_init_fn=load_lexicon if settings.lexicon == "on" else None,
        collate_fn=collate_slow if settings.collate == "slow" else None,
    )


def save_mask_images(logits: torch.Tensor, folder: Path) -> None:
    """Write the predicted mask of every picture of the batch, in the size of its file."""
    for index, mask in enumerate(logits.detach().argmax(dim=1).byte().numpy()):
        image = Image.fromarray(mask * (255 // CLASSES)).resize((FILE_SIZE, FILE_SIZE), Image.Resampling.NEAREST)
        image.save(folder / f"mask-{index:02}.png")


def save_checkpoint(path: Path, step: int, model: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    state = {"step": step, "model": model.state_dict(), "average": average.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path)


def train(settings: Settings, loader: DataLoader, output: Path) -> dict[str, float]:
    model = SegmentationNet(CLASSES)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history = History(output / "history.json")
    validation = make_validation(loader.dataset, settings.batch_size) if settings.validate_every else None
    step = samples = 0
    started = time.perf_counter()
    while step < settings.steps:
        for images, masks in loader:
            optimizer.zero_grad()
            logits = model(images)
            loss = nn.functional.cross_entropy(logits, masks)
            loss.backward()
            optimizer.step()
            average.update_parameters(model)
            step += 1
            samples += len(images)
            if settings.post_process == "on":
                save_mask_images(logits, output)
            if settings.history == "rewrite":
                history.add(step, loss.item(), logits)
                history.rewrite()
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
    torch.set_num_threads(arguments.threads)
    loader = make_loader(settings, make_files(arguments.data))
    with tempfile.TemporaryDirectory(prefix="case-study-") as temporary:
        output = arguments.output or Path(temporary)
        output.mkdir(parents=True, exist_ok=True)
        result = train(settings, loader, output)
    print(json.dumps({"variant": arguments.variant, **result}))


if __name__ == "__main__":
    main()
