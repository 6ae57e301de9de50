"""Document images with Lightning: each worker opens its index of annotations when it starts."""

import argparse
import json
import os
import tempfile
import time
import warnings

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore", message=".*does not have many workers.*")


def write_corpus(folder, pages=480, lines=90_000):
    rng = np.random.default_rng(1)
    np.save(os.path.join(folder, "pages.npy"), rng.integers(0, 255, (pages, 64, 64), dtype=np.uint8))
    kinds = rng.integers(0, 8, lines).tolist()
    boxes = rng.integers(0, 64, (lines, 4)).tolist()
    lines = [{"page": i % pages, "kind": kinds[i], "box": boxes[i], "text": f"line {i}"} for i in range(lines)]
    with open(os.path.join(folder, "annotations.json"), "w") as f:
        json.dump(lines, f)


class Pages(Dataset):
    def __init__(self, folder, pages=480):
        self.folder = folder
        self.pages = pages
        self.index = None

    def open(self):
        self.images = np.load(os.path.join(self.folder, "pages.npy"), mmap_mode="r")
        with open(os.path.join(self.folder, "annotations.json")) as f:
            annotations = json.load(f)
        self.index = {}
        for line in annotations:
            self.index.setdefault(line["page"], []).append(line["kind"])

    def __len__(self):
        return self.pages

    def __getitem__(self, i):
        if self.index is None:
            self.open()
        image = torch.from_numpy(self.images[i].astype(np.float32) / 255.0)[None]
        kinds = torch.bincount(torch.tensor(self.index[i]), minlength=8).float()
        return image, kinds / kinds.sum()


class PageModel(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 5, 2, 2),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(48, 96, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(96, 8),
        )
        self.start, self.done = 0.0, 0

    def training_step(self, batch, batch_idx):
        image, kinds = batch
        loss = nn.functional.cross_entropy(self.net(image), kinds)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def on_train_batch_end(self, *args):
        self.done += 1
        if self.done == 20:
            self.start = time.perf_counter()

    def on_train_epoch_end(self):
        if self.current_epoch % 4 == 0:
            print(f"epoch {self.current_epoch} loss {self.trainer.callback_metrics['loss']:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    L.seed_everything(0, verbose=False)
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(folder)
        loader = DataLoader(
            Pages(folder),
            batch_size=args.batch_size,
            shuffle=True,
            num_workers=args.workers,
            persistent_workers=args.fixed,
        )
        model = PageModel()
        trainer = L.Trainer(
            max_steps=args.steps,
            accelerator="cpu",
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
        )
        trainer.fit(model, loader)
        seconds = time.perf_counter() - model.start
    samples = (args.steps - 20) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
