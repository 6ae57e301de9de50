"""Keyword spotting with Lightning: progress bar, a CSV log every 20 steps, a short validation after each epoch."""

import argparse
import json
import tempfile
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy

warnings.filterwarnings("ignore")


class Keywords(L.LightningModule):
    def __init__(self, classes=10):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes),
        )
        self.accuracy = MulticlassAccuracy(classes)

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.accuracy(self.net(x), y)
        self.log("val/accuracy", self.accuracy)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Clock(L.Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 10:
            self.start = time.perf_counter()

    def on_train_end(self, *_):
        self.seconds = time.perf_counter() - self.start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = parser.parse_args()
    L.seed_everything(0, verbose=False)
    bs = 32
    train = TensorDataset(torch.randn(bs * 100, 1, 40, 48), torch.randint(0, 10, (bs * 100,)))
    val = TensorDataset(torch.randn(bs * 3, 1, 40, 48), torch.randint(0, 10, (bs * 3,)))
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_steps=args.steps,
            max_epochs=-1,
            accelerator="cpu",
            logger=CSVLogger(folder),
            log_every_n_steps=20,
            num_sanity_val_steps=0,
            enable_checkpointing=False,
            enable_model_summary=False,
            callbacks=[clock, LearningRateMonitor()],
        )
        trainer.fit(Keywords(), DataLoader(train, batch_size=bs, shuffle=True), DataLoader(val, batch_size=bs))
    samples = (args.steps - 10) * bs
    print()
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": clock.seconds, "samples_per_s": samples / clock.seconds}))


if __name__ == "__main__":
    main()
