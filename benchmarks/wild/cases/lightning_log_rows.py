"""LSTM sequence classifier in Lightning, with a CSV log."""

import argparse
import json
import logging
import tempfile
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(L.LightningModule):
    def __init__(self, every, classes=8):
        super().__init__()
        self.every = every
        self.lstm = nn.LSTM(12, 32, batch_first=True)
        self.head = nn.Linear(32, classes)

    def training_step(self, batch, batch_idx):
        x, y = batch
        out, _ = self.lstm(x)
        logits = self.head(out[:, -1])
        loss = nn.functional.cross_entropy(logits, y)
        self.log("loss", loss)
        return loss

    def on_after_backward(self):
        if self.trainer.global_step % self.every:
            return
        for name, p in self.named_parameters():
            for kind, tensor in (("weight", p.detach()), ("grad", p.grad)):
                self.log(f"{kind}/{name}/mean", tensor.mean())
                self.log(f"{kind}/{name}/std", tensor.std())
                self.log(f"{kind}/{name}/norm", tensor.norm())
                self.log(f"{kind}/{name}/max", tensor.abs().max())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Throughput(L.Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 20:
            self.start = time.perf_counter()

    def on_train_end(self, trainer, *_):
        self.seconds = time.perf_counter() - self.start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    L.seed_everything(0, verbose=False)
    bs = 32
    data = TensorDataset(torch.randn(3200, 30, 12), torch.randint(0, 8, (3200,)))
    meter = Throughput()
    with tempfile.TemporaryDirectory() as folder:
        every = 100 if args.fixed else 1
        trainer = L.Trainer(
            max_steps=args.steps,
            max_epochs=-1,
            accelerator="cpu",
            logger=CSVLogger(folder, flush_logs_every_n_steps=every),
            log_every_n_steps=every,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[meter],
        )
        trainer.fit(Classifier(every), DataLoader(data, batch_size=bs, shuffle=True))
    samples = (args.steps - 20) * bs
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": meter.seconds, "samples_per_s": samples / meter.seconds}))


if __name__ == "__main__":
    main()
