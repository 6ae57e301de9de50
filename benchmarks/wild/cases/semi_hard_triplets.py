"""Sentence embeddings with the triplet loss: for every pair of a topic, the nearest stranger that is farther away."""

import argparse
import json
import math
from time import perf_counter

import torch
from torch import nn, optim

TOPICS, OF_EACH, LENGTH, VOCABULARY = 20, 8, 12, 1500


class Encoder(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, dim)
        self.places = nn.Parameter(torch.randn(LENGTH, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 256, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)

    def forward(self, ids):
        return nn.functional.normalize(self.body(self.words(ids) + self.places).mean(1), dim=-1)


class SemiHardTriplets(nn.Module):
    def __init__(self, margin=0.3):
        super().__init__()
        self.margin = margin

    @staticmethod
    def distances(e):
        square = e.pow(2).sum(1)
        return (square[:, None] + square[None, :] - 2 * e @ e.T).clamp(min=0)

    def nearest_stranger(self, d, same):
        n = len(d)
        tile = d.unsqueeze(1).repeat(1, n, 1)
        farther = tile > d.unsqueeze(2)
        allowed = farther & ~same.unsqueeze(1).repeat(1, n, 1)
        return torch.where(allowed, tile, torch.full_like(tile, math.inf)).amin(2)

    def forward(self, e, topics):
        d = self.distances(e)
        same = topics[:, None] == topics[None, :]
        nearest = self.nearest_stranger(d, same)
        farthest = d.masked_fill(same, -math.inf).amax(1, keepdim=True)
        stranger = torch.where(nearest.isinf(), farthest, nearest)
        pairs = same & ~torch.eye(len(d), dtype=torch.bool)
        return torch.relu(d - stranger + self.margin)[pairs].mean()


class SortedTriplets(SemiHardTriplets):
    """The strangers of each sentence in order, and a search for the place of each friend among them."""

    def nearest_stranger(self, d, same):
        ordered = d.masked_fill(same, math.inf).sort(1).values
        at = torch.searchsorted(ordered.detach(), d.detach().contiguous(), right=True)
        return ordered.gather(1, at.clamp(max=len(d) - 1))


def batches(seed):
    g = torch.Generator().manual_seed(seed)
    favourites = torch.randint(0, VOCABULARY, (200, 12), generator=g)
    while True:
        topics = torch.randperm(200, generator=g)[:TOPICS].repeat_interleave(OF_EACH)
        noise = torch.randint(0, VOCABULARY, (len(topics), LENGTH), generator=g)
        said = favourites[topics].gather(1, torch.randint(0, 12, (len(topics), LENGTH), generator=g))
        yield torch.where(torch.rand(len(topics), LENGTH, generator=g) < 0.4, said, noise), topics


cli = argparse.ArgumentParser()
cli.add_argument("--steps", type=int, default=100)
cli.add_argument("--fixed", action="store_true")
cli = cli.parse_args()

torch.manual_seed(7)
encoder = Encoder()
criterion = SortedTriplets() if cli.fixed else SemiHardTriplets()
adam = optim.AdamW(encoder.parameters(), 5e-4)
warmup = optim.lr_scheduler.LinearLR(adam, 0.1, 1.0, 20)
average = None
for step, (ids, topics) in zip(range(cli.steps), batches(3)):
    if step == 6:
        began = perf_counter()
    loss = criterion(encoder(ids), topics)
    adam.zero_grad()
    loss.backward()
    adam.step()
    warmup.step()
    average = loss.detach() if average is None else 0.95 * average + 0.05 * loss.detach()
    if step % 25 == 0:
        print(f"{step:5d}  triplet loss {average:.4f}")
took = perf_counter() - began
count = (cli.steps - 6) * TOPICS * OF_EACH
print(json.dumps({"steps": cli.steps, "loss": float(average), "samples": count, "seconds": took, "samples_per_s": count / took}))
