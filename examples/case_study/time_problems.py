"""Problems that not every step shows: what grows, what comes back every few steps, what starts anew, and what is slow now and then."""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

LARGE_EVERY = 60  # one picture in so many was never scaled down
LARGE_TIMES = 10  # its sides are so many times as long
VALIDATION_BATCHES = 6
LEXICON_WORDS = 200_000

lexicon: dict[str, int] = {}


class History:
    """Everything that was ever measured, written to one JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict] = []

    def add(self, step: int, loss: float, logits: torch.Tensor) -> None:
        shares = logits.detach().softmax(dim=1).mean(dim=(2, 3))
        spread = logits.detach().flatten(2).std(dim=2)
        columns = logits.detach().softmax(dim=1).amax(dim=1).mean(dim=1)
        self.rows.append({"step": step, "loss": loss, "shares": shares.tolist(), "spread": spread.tolist(), "sure": columns.tolist()})

    def rewrite(self) -> None:
        """As it is often written first: the whole file, after every step."""
        self.path.write_text(json.dumps(self.rows))

    def append(self) -> None:
        """Only what is new, as a line."""
        with self.path.open("a") as file:
            file.write(json.dumps(self.rows.pop()) + "\n")


def make_validation(dataset: Dataset, batch_size: int) -> DataLoader:
    """A few batches, held in memory."""
    samples = [dataset[index] for index in range(VALIDATION_BATCHES * batch_size)]
    images, masks = (torch.from_numpy(np.stack(arrays)) for arrays in zip(*samples, strict=True))
    return DataLoader(TensorDataset(images, masks), batch_size=batch_size)


@torch.no_grad()
def validate(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    losses = [nn.functional.cross_entropy(model(images), masks).item() for images, masks in loader]
    model.train()
    return sum(losses) / len(losses)


def with_large_pictures(folder: Path) -> Path:
    """A copy of the pictures in which one in sixty has a hundred times the pixels; made on the first call."""
    done = folder.with_name(f"{folder.name}-large-{LARGE_EVERY}-{LARGE_TIMES}")
    if done.is_dir():
        return done
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    shutil.copytree(folder, unfinished, dirs_exist_ok=True)
    for path in sorted(unfinished.glob("*.jpg"))[LARGE_EVERY // 2 :: LARGE_EVERY]:
        image = Image.open(path)
        image.resize((image.width * LARGE_TIMES, image.height * LARGE_TIMES), Image.Resampling.BICUBIC).save(path, quality=90)
    try:
        unfinished.rename(done)
    except OSError:  # another run was faster
        shutil.rmtree(unfinished)
    return done


def load_lexicon(worker: int) -> None:
    """What a worker does before its first batch: here a table, elsewhere imports, an index, an opened archive."""
    lexicon.update({f"{word * 2654435761 % 2**32:08x}": word for word in range(LEXICON_WORDS)})
