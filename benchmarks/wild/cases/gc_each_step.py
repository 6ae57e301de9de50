"""Fine-tune a scorer on question-answer pairs, tidying memory after each step."""

import argparse
import gc
import json
import random
import time

import torch
from torch import nn


def load_pairs(n):
    rng = random.Random(0)
    return [{"id": i, "question": [rng.randrange(1, 300) for _ in range(48)], "meta": {"source": "web", "tags": ["a", str(i)]}} for i in range(n)]


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(300, 128)
        self.gru = nn.GRU(128, 128, batch_first=True)
        self.head = nn.Linear(128, 2)

    def forward(self, tokens):
        out, _ = self.gru(self.embed(tokens))
        return self.head(out[:, -1])


class Trainer:
    def __init__(self, args):
        torch.manual_seed(0)
        self.args = args
        self.pairs = load_pairs(20_000)
        self.model = Scorer()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def get_batch(self, step):
        first = step * self.args.batch_size % len(self.pairs)
        rows = self.pairs[first : first + self.args.batch_size]
        return torch.tensor([row["question"] for row in rows]), torch.tensor([row["id"] % 2 for row in rows])

    def training_step(self, step):
        tokens, labels = self.get_batch(step)
        loss = nn.functional.cross_entropy(self.model(tokens), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if not self.args.fixed:
            gc.collect()
        return loss.item()

    def train(self):
        for step in range(self.args.steps):
            if step == 10:
                start = time.time()
            loss = self.training_step(step)
            if step % 50 == 0:
                print(f"step {step}, loss {loss:.4f}")
        return time.time() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch_size", type=int, default=96)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    seconds = Trainer(args).train()
    samples = (args.steps - 10) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
