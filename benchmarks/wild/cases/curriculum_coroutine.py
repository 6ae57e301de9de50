"""A language model on longer and longer pieces; the trainer is a coroutine to which batches are sent."""

import argparse
import functools
import itertools
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LETTERS, DIM, BATCH, STAGES = 64, 128, 16, (48, 80, 112)


def primed(f):
    @functools.wraps(f)
    def begin(*args, **kwargs):
        coroutine = f(*args, **kwargs)
        next(coroutine)
        return coroutine

    return begin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 4, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.n2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, DIM), nn.Embedding(max(STAGES), DIM)
        self.layers = nn.Sequential(*[Layer() for _ in range(4)])
        self.head = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, LETTERS))

    def forward(self, x):
        return self.head(self.layers(self.letters(x) + self.places.weight[: x.shape[1]]))


def text(n, seed):
    g = torch.Generator().manual_seed(seed)
    follow = torch.randint(0, LETTERS, (LETTERS, 3), generator=g)
    which = torch.randint(0, 3, (n,), generator=g).tolist()
    table, at, letters = follow.tolist(), 0, []
    for w in which:
        at = table[at][w]
        letters.append(at)
    return torch.tensor(letters)


def pieces(letters, steps, seed):
    g = torch.Generator().manual_seed(seed)
    for step in range(steps):
        length = STAGES[step * len(STAGES) // steps]
        at = torch.randint(0, len(letters) - length - 1, (BATCH, 1), generator=g)
        both = letters[at + torch.arange(length + 1)]
        yield both[:, :-1], both[:, 1:]


@primed
def printer(every):
    heard, total = 0, 0.0
    while True:
        loss = yield
        heard, total = heard + 1, total + loss
        if heard % every == 0:
            print(f"[{heard}] {float(total) / every:.4f}", file=sys.stderr)
            total = 0.0


@primed
def trainer(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    loss = None
    while True:
        x, y = yield loss
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        loss = loss.detach()


@torch.inference_mode()
def examine(model, held):
    model.eval()
    losses = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()) for x, y in held]
    model.train()
    return torch.stack(losses).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Model()
    learn, tell = trainer(model, args.steps), printer(50)
    train, held = text(200_000, 1), list(pieces(text(10_000, 2), 3, 3))
    stream = pieces(train, args.steps, 4)
    for batch in itertools.islice(stream, 10):
        learn.send(batch)
    start = time.perf_counter()
    for i, batch in enumerate(stream, 10):
        loss = learn.send(batch)
        tell.send(loss)
        if i % 80 == 79:
            print(f"held out: {examine(model, held):.4f}", file=sys.stderr)
    seconds = time.perf_counter() - start
    samples = (args.steps - 10) * BATCH
    print(json.dumps({"steps": args.steps, "loss": float(loss), "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
