"""Inflection of made-up words by a character model in Lightning, with checkpoints on the way."""

import argparse
import json
import logging
import random
import tempfile
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

LETTERS = "abcdefghijklmnoprstuvz"
FEATURES = {"PST": "ed", "PRS": "s", "PTCP": "ing", "AGT": "er"}
PAD, BOS, EOS = 0, 1, 2
SYMBOLS = {c: i + 3 for i, c in enumerate([*LETTERS, *FEATURES])}


def make_words(count, seed=0):
    rng = random.Random(seed)
    samples = []
    for _ in range(count):
        lemma = "".join(rng.choices(LETTERS, k=rng.randint(5, 12)))
        feature = rng.choice(list(FEATURES))
        samples.append((lemma, lemma + FEATURES[feature], ["V", feature]))
    return samples


class Collate:
    def __call__(self, batch):
        source = [torch.tensor([SYMBOLS[c] for c in lemma] + [SYMBOLS[features[1]]]) for lemma, _, features in batch]
        target = [torch.tensor([BOS] + [SYMBOLS[c] for c in form] + [EOS]) for _, form, _ in batch]
        return pad_sequence(source, batch_first=True), pad_sequence(target, batch_first=True)


class Inflector(L.LightningModule):
    def __init__(self, train_set, hidden=160, embedding=64, lr=2e-3, lean=False):
        super().__init__()
        if lean:
            self.save_hyperparameters(ignore=["train_set"])
        else:
            self.save_hyperparameters()
        self.train_set = train_set
        symbols = len(SYMBOLS) + 3
        self.embed = nn.Embedding(symbols, embedding, padding_idx=PAD)
        self.encoder = nn.GRU(embedding, hidden // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(embedding, hidden, batch_first=True)
        self.attention = nn.MultiheadAttention(hidden, 2, batch_first=True)
        self.out = nn.Linear(2 * hidden, symbols)

    def training_step(self, batch, batch_idx):
        source, target = batch
        memory, _ = self.encoder(self.embed(source))
        state, _ = self.decoder(self.embed(target[:, :-1]))
        seen, _ = self.attention(state, memory, memory, key_padding_mask=source == PAD, need_weights=False)
        logits = self.out(torch.cat([state, seen], -1))
        return nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=64, shuffle=True, collate_fn=Collate())


class Clock(Callback):
    seen = 0

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == 10:
            self.start = time.perf_counter()
        elif trainer.global_step > 10:
            self.seen += len(batch[0])

    def on_train_end(self, trainer, module):
        self.seconds = time.perf_counter() - self.start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=170)
    parser.add_argument("--fixed", action="store_true", help="leave the samples out of the hyperparameters")
    args = parser.parse_args()
    L.seed_everything(2, verbose=False)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        model = Inflector(make_words(60_000), lean=args.fixed)
        trainer = L.Trainer(
            max_steps=args.steps,
            max_epochs=-1,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[ModelCheckpoint(folder, filename="{step}", every_n_train_steps=5), clock],
        )
        trainer.fit(model)
    print(json.dumps({"steps": args.steps, "samples": clock.seen, "seconds": clock.seconds, "samples_per_s": clock.seen / clock.seconds}))


if __name__ == "__main__":
    main()
