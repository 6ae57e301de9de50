"""Product embeddings with a triplet loss and hard mining inside the batch."""

import argparse
import json
import random
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Products(Dataset):
    def __init__(self, products=300, views=12, dim=256, seed=2):
        g = torch.Generator().manual_seed(seed)
        centres = torch.randn(products, dim, generator=g)
        self.label = torch.arange(products).repeat_interleave(views)
        self.view = centres[self.label] + 1.5 * torch.randn(len(self.label), dim, generator=g)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.view[i], self.label[i]


class BalancedBatches(Sampler):
    """P products with K views each."""

    def __init__(self, labels, p, k, batches, seed=0):
        self.by_label = {}
        for i, label in enumerate(labels.tolist()):
            self.by_label.setdefault(label, []).append(i)
        self.p, self.k, self.batches = p, k, batches
        self.rng = random.Random(seed)

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            chosen = self.rng.sample(sorted(self.by_label), self.p)
            yield [i for label in chosen for i in self.rng.sample(self.by_label[label], self.k)]


class HardTripletMiner:
    """For each anchor the farthest view of its own product and the nearest of another."""

    def __call__(self, distances, labels):
        positives, negatives = [], []
        for a in range(len(labels)):
            far, near = -1.0, float("inf")
            positive = negative = a
            for b in range(len(labels)):
                d = distances[a, b].item()
                if labels[b] == labels[a]:
                    if d > far and b != a:
                        far, positive = d, b
                elif d < near:
                    near, negative = d, b
            positives.append(positive)
            negatives.append(negative)
        return torch.tensor(positives), torch.tensor(negatives)


class MatrixTripletMiner:
    def __call__(self, distances, labels):
        same = labels[:, None] == labels[None, :]
        own = torch.eye(len(labels), dtype=torch.bool)
        positives = distances.masked_fill(~same | own, -1.0).argmax(1)
        negatives = distances.masked_fill(same, float("inf")).argmin(1)
        return positives, negatives


class EmbeddingTrainer:
    def __init__(self, miner, lr=3e-4, margin=0.2):
        self.net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 128))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=lr)
        self.miner, self.margin = miner, margin

    def loss(self, x, labels):
        z = F.normalize(self.net(x), dim=1)
        with torch.no_grad():
            distances = torch.cdist(z, z)
            positives, negatives = self.miner(distances, labels)
        return F.triplet_margin_loss(z, z[positives], z[negatives], margin=self.margin)

    def run(self, loader, report_every=20):
        start = time.perf_counter()
        for step, (x, labels) in enumerate(loader, 1):
            loss = self.loss(x, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step == 5:
                start = time.perf_counter()
            if step % report_every == 0:
                print(f"batch {step} triplet loss {loss.item():.4f}", flush=True)
        return time.perf_counter() - start


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=200)
    ap.add_argument("--fixed", action="store_true")
    cfg = ap.parse_args()
    torch.manual_seed(0)
    data = Products()
    batches = DataLoader(data, batch_sampler=BalancedBatches(data.label, p=16, k=8, batches=cfg.steps))
    spent = EmbeddingTrainer(MatrixTripletMiner() if cfg.fixed else HardTripletMiner()).run(batches)
    n = (cfg.steps - 5) * 128
    print(json.dumps({"steps": cfg.steps, "samples": n, "seconds": spent, "samples_per_s": n / spent}))
