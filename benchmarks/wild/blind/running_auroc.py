"""Multi-label tagging with Lightning and a running AUROC of the training set."""

import argparse
import json
import tempfile
import time

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MultilabelAUROC, MultilabelAveragePrecision

TAGS = 12


class Tags(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 128, generator=g)
        mix = torch.randn(128, TAGS, generator=torch.Generator().manual_seed(99))
        self.y = (self.x @ mix / 6 + torch.randn(n, TAGS, generator=g) > 1).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Tagger(L.LightningModule):
    def __init__(self, metric_at_end):
        super().__init__()
        self.metric_at_end = metric_at_end
        self.net = nn.Sequential(nn.Linear(128, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, TAGS))
        self.train_metrics = MetricCollection({"auroc": MultilabelAUROC(TAGS), "map": MultilabelAveragePrecision(TAGS)})
        self.start, self.done = 0.0, 0

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, y.float())
        self.log("train_loss", loss)
        self.train_metrics.update(logits.detach().sigmoid(), y)
        if not self.metric_at_end:
            self.log_dict(self.train_metrics.compute(), prog_bar=True)
        return loss

    def on_train_epoch_end(self):
        if self.metric_at_end:
            self.log_dict(self.train_metrics.compute(), prog_bar=True)
        self.train_metrics.reset()

    def on_train_batch_end(self, *args):
        self.done += 1
        if self.done == 10:
            self.start = time.perf_counter()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=240)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--fixed", action="store_true")
    args = ap.parse_args()
    L.seed_everything(0, verbose=False)
    loader = DataLoader(Tags(60 * args.batch_size, 0), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = Tagger(metric_at_end=args.fixed)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_steps=args.steps,
            accelerator="cpu",
            default_root_dir=folder,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            log_every_n_steps=20,
            logger=False,
        )
        trainer.fit(model, loader)
    seconds = time.perf_counter() - model.start
    samples = (args.steps - 10) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
