"""Lightning: definitions are sorted under many headwords; which are confused with which is counted as it trains."""

import argparse
import json
import time
import warnings

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
HEADWORDS, VOCABULARY, LENGTH, BATCH = 480, 3000, 32, 64


class Sorter(pl.LightningModule):
    def __init__(self, steps, dim=128):
        super().__init__()
        self.steps = steps
        self.words = nn.Embedding(VOCABULARY, dim)
        self.convs = nn.ModuleList([nn.Conv1d(dim, 96, k, padding=k // 2) for k in (3, 5, 7)])
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(3 * 96, HEADWORDS))

    def forward(self, ids):
        x = self.words(ids).transpose(1, 2)
        return self.head(torch.cat([conv(x).relu().amax(2) for conv in self.convs], 1))

    def training_step(self, batch, batch_idx):
        ids, target = batch
        scores = self(ids)
        loss = F.cross_entropy(scores, target)
        self.log("loss", loss, prog_bar=True)
        return {"loss": loss, "guess": scores.detach().argmax(1), "target": target}

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=self.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Confusion(pl.Callback):
    """Rows are what it was, columns what was guessed."""

    def __init__(self):
        self.names = torch.arange(HEADWORDS)
        self.table = torch.zeros(HEADWORDS, HEADWORDS)

    def count(self, guess, target):
        self.table += ((guess == self.names[:, None]) & (target == self.names[:, None, None])).sum(2, dtype=torch.float32)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.count(outputs["guess"], outputs["target"])

    def on_train_epoch_end(self, trainer, module):
        right = self.table.diagonal().sum() / self.table.sum()
        worst = (self.table - torch.diag(self.table.diagonal())).flatten().argmax().item()
        print(f"\nright {right:.3f}, most confused: {divmod(worst, HEADWORDS)}")
        self.table.zero_()


class IndexedConfusion(Confusion):
    def count(self, guess, target):
        self.table.index_put_((target, guess), torch.ones(len(guess)), accumulate=True)


class Stopwatch(pl.Callback):
    def on_train_batch_start(self, trainer, *_):
        if trainer.global_step == 10 and not hasattr(self, "began"):
            self.began = time.perf_counter()

    def on_train_end(self, *_):
        self.seconds = time.perf_counter() - self.began


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=220)
    p.add_argument("--fixed", action="store_true")
    a = p.parse_args()
    pl.seed_everything(3, verbose=False)
    target = torch.randint(0, HEADWORDS, (BATCH * 80,))
    typical = torch.randint(0, VOCABULARY, (HEADWORDS, LENGTH))
    ids = torch.where(torch.rand(len(target), LENGTH) < 0.3, typical[target], torch.randint(0, VOCABULARY, (len(target), LENGTH)))
    watch = Stopwatch()
    trainer = pl.Trainer(
        accelerator="cpu", max_steps=a.steps, max_epochs=-1, logger=False, enable_checkpointing=False, enable_model_summary=False,
        callbacks=[IndexedConfusion() if a.fixed else Confusion(), watch],
    )
    trainer.fit(Sorter(a.steps), DataLoader(TensorDataset(ids, target), BATCH, shuffle=True))
    n = (a.steps - 10) * BATCH
    loss = float(trainer.callback_metrics["loss"])
    print()
    print(json.dumps({"steps": a.steps, "loss": loss, "samples": n, "seconds": watch.seconds, "samples_per_s": n / watch.seconds}))
