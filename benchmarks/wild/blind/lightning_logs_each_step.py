"""Autoencoder of spectra with Lightning: metrics of every step, a short validation, one checkpoint an epoch."""

import argparse
import json
import tempfile
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", message=".*does not have many workers.*")


def spectra(n, seed, bins=1024):
    g = torch.Generator().manual_seed(seed)
    axis = torch.linspace(0, 1, bins)
    signal = 0.05 * torch.randn(n, bins, generator=g)
    for _ in range(3):
        centre, width = torch.rand(n, 1, generator=g), 0.01 + 0.05 * torch.rand(n, 1, generator=g)
        signal += torch.exp(-(((axis - centre) / width) ** 2))
    return TensorDataset(signal)


class SpectraAutoencoder(L.LightningModule):
    def __init__(self, width=1024):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(1024, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 64))
        self.decoder = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1024))
        self.start, self.done = 0.0, 0

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        code = self.encoder(x)
        error = nn.functional.mse_loss(self.decoder(code), x)
        loss = error + 1e-4 * code.square().mean()
        self.log_dict({"train/loss": loss, "train/error": error, "train/code": code.detach().abs().mean()})
        return loss

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        self.log("val/error", nn.functional.mse_loss(self(x), x))

    def on_train_batch_end(self, *args):
        self.done += 1
        if self.done == 5:
            self.start = time.perf_counter()

    def on_validation_epoch_end(self):
        print(f"epoch {self.current_epoch} val {self.trainer.callback_metrics['val/error']:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=96)
    ap.add_argument("--batch-size", type=int, default=1024)
    ap.add_argument("--fixed", action="store_true", help="log every 50 steps only")
    args = ap.parse_args()
    L.seed_everything(0, verbose=False)
    train = DataLoader(spectra(32 * args.batch_size, 0), batch_size=args.batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(spectra(args.batch_size, 1), batch_size=args.batch_size)
    model = SpectraAutoencoder()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_steps=args.steps,
            accelerator="cpu",
            default_root_dir=folder,
            logger=CSVLogger(folder),
            callbacks=[ModelCheckpoint(folder, save_top_k=1)],
            log_every_n_steps=50 if args.fixed else 1,
            gradient_clip_val=1.0,
            num_sanity_val_steps=0,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(model, train, valid)
        seconds = time.perf_counter() - model.start
    samples = (args.steps - 5) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
