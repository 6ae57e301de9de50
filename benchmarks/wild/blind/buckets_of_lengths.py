"""Tagging of sequences of very different lengths, in batches of about as many tokens each."""

import argparse
import json
import os
import tempfile
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

VOCAB, TAGS, PAD = 4000, 16, 0


class Sentences(Dataset):
    def __init__(self, n=6000, seed=0):
        g = torch.Generator().manual_seed(seed)
        lengths = torch.exp(4.0 + 0.6 * torch.randn(n, generator=g)).clamp(12, 256).long()
        self.tokens = [torch.randint(1, VOCAB, (int(k),), generator=g) for k in lengths]
        self.lengths = lengths.tolist()

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i], self.tokens[i] % TAGS


class TokenBudget(Sampler):
    """Sequences of like length together; batches in random order."""

    def __init__(self, lengths, budget, generator):
        self.generator = generator
        self.batches, batch = [], []
        for i in sorted(range(len(lengths)), key=lengths.__getitem__):
            if batch and lengths[i] * (len(batch) + 1) > budget:
                self.batches.append(batch)
                batch = []
            batch.append(i)
        self.batches.append(batch)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        for i in torch.randperm(len(self.batches), generator=self.generator).tolist():
            yield self.batches[i]


def collate(samples):
    tokens, tags = zip(*samples, strict=True)
    return pad_sequence(tokens, batch_first=True, padding_value=PAD), pad_sequence(tags, batch_first=True, padding_value=-100)


class Tagger(nn.Module):
    def __init__(self, dim=192, heads=4, depth=3):
        super().__init__()
        self.embed, self.position = nn.Embedding(VOCAB, dim, padding_idx=PAD), nn.Embedding(256, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.out = nn.Linear(dim, TAGS)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.out(self.encoder(x, src_key_padding_mask=tokens == PAD))


class LengthAwareTrainer:
    def __init__(self, model, loader, folder, save_every, log_every=10):
        self.model, self.loader, self.folder = model, loader, folder
        self.save_every, self.log_every = save_every, log_every
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self.ema_loss = None

    def one_batch(self, tokens, tags):
        loss = nn.functional.cross_entropy(self.model(tokens).flatten(0, 1), tags.flatten(), ignore_index=-100)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        value = loss.item()
        self.ema_loss = value if self.ema_loss is None else 0.9 * self.ema_loss + 0.1 * value

    def save(self):
        torch.save(self.model.state_dict(), os.path.join(self.folder, "last.pt"))

    def fit(self, steps, warmup=5):
        step, seen, start = 0, 0, time.perf_counter()
        while True:
            for tokens, tags in self.loader:
                self.one_batch(tokens, tags)
                step, seen = step + 1, seen + len(tokens)
                if step == warmup:
                    seen, start = 0, time.perf_counter()
                if step % self.log_every == 0:
                    print(f"{step}: loss {self.ema_loss:.3f} batch {tuple(tokens.shape)}", flush=True)
                if self.save_every and step % self.save_every == 0:
                    self.save()
                if step == steps:
                    return seen, time.perf_counter() - start


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=90)
    ap.add_argument("--tokens", type=int, default=3072)
    ap.add_argument("--fixed", action="store_true", help="no checkpoint on the way")
    args = ap.parse_args()
    torch.manual_seed(0)
    data = Sentences()
    sampler = TokenBudget(data.lengths, args.tokens, torch.Generator().manual_seed(1))
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate)
    with tempfile.TemporaryDirectory() as folder:
        trainer = LengthAwareTrainer(Tagger(), loader, folder, save_every=0 if args.fixed else 45)
        samples, seconds = trainer.fit(args.steps)
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
