"""Train a small network with Lightning on data made here; `--variant slow-callback` plants a callback that looks at all weights."""

import argparse
import json
import logging
import time
import warnings

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES = 256
CLASSES = 10
WIDTH = 1024


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(FEATURES, WIDTH), nn.ReLU()),
            *(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
            *(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
            nn.Linear(WIDTH, CLASSES),
        )

    def training_step(self, batch: list[torch.Tensor], batch_index: int) -> torch.Tensor:
        inputs, targets = batch
        loss = nn.functional.cross_entropy(self.layers(inputs), targets)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_index: int) -> None:
        inputs, targets = batch
        self.log("accuracy", (self.layers(inputs).argmax(dim=1) == targets).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


class WeightHistograms(pl.Callback):
    """How the weights of each parameter are distributed, after every batch."""

    def __init__(self) -> None:
        self.histograms: dict[str, list[int]] = {}

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *arguments: object) -> None:
        for name, parameter in module.named_parameters():
            counts, _ = np.histogram(parameter.detach().flatten()[::2].numpy(), bins=64)
            self.histograms[name] = counts.tolist()


def make_data(samples: int) -> TensorDataset:
    inputs = torch.randn(samples, FEATURES)
    return TensorDataset(inputs, (inputs @ torch.randn(FEATURES, CLASSES)).argmax(dim=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=["healthy", "slow-callback"], default="healthy")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batches", type=int, default=50, help="per epoch")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    pl.seed_everything(0)
    torch.set_num_threads(arguments.threads)
    trainer = pl.Trainer(
        max_epochs=arguments.epochs,
        accelerator="cpu",
        logger=CSVLogger("logs"),
        callbacks=[WeightHistograms()] if arguments.variant == "slow-callback" else [],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    training = DataLoader(make_data(arguments.batches * arguments.batch_size), batch_size=arguments.batch_size, shuffle=True)
    validation = DataLoader(make_data(4 * arguments.batch_size), batch_size=arguments.batch_size)
    started = time.perf_counter()
    trainer.fit(Classifier(), training, validation)
    samples = trainer.global_step * arguments.batch_size
    print(json.dumps({"steps": trainer.global_step, "samples_per_s": samples / (time.perf_counter() - started)}))


if __name__ == "__main__":
    main()
