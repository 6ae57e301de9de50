"""Lightning's loop with a callback that makes a histogram of each parameter after every batch."""

import logging
import warnings

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    def training_step(self, batch, batch_index):
        inputs, targets = batch
        return nn.functional.cross_entropy(self.layers(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class WeightHistograms(pl.Callback):
    def on_train_batch_end(self, trainer, module, *arguments):
        self.histograms = {name: np.histogram(weights.detach().numpy(), bins=64) for name, weights in module.named_parameters()}


warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)
trainer = pl.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    callbacks=[WeightHistograms()],
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
data = TensorDataset(torch.randn(2560, 256), torch.randint(0, 10, (2560,)))
trainer.fit(Classifier(), DataLoader(data, batch_size=64, shuffle=True))
