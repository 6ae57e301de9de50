"""Two-tower recommender with large sparse tables and an exponential moving average of all weights."""

import argparse
import copy
import json
import time

import torch
import torch.nn as nn


class TwoTower(nn.Module):
    def __init__(self, users=60_000, items=40_000, dim=64):
        super().__init__()
        self.user, self.item = nn.Embedding(users, dim, sparse=True), nn.Embedding(items, dim, sparse=True)
        self.user_mlp = nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, dim))
        self.item_mlp = nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, dim))

    def forward(self, users, items):
        u, i = self.user_mlp(self.user(users)), self.item_mlp(self.item(items))
        return nn.functional.normalize(u, dim=1) @ nn.functional.normalize(i, dim=1).T * 10


class ModelEma:
    """Keeps a moving average of everything in the model's state dict."""

    def __init__(self, model, decay=0.9995, in_place=False):
        self.module = copy.deepcopy(model).eval()
        self.decay, self.in_place = decay, in_place
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        averaged, current = list(self.module.state_dict().values()), list(model.state_dict().values())
        if self.in_place:
            torch._foreach_lerp_(averaged, current, 1.0 - self.decay)
            return
        for ema_v, model_v in zip(averaged, current):
            ema_v.copy_(self.decay * ema_v + (1.0 - self.decay) * model_v)


def parameters(model):
    sparse = [model.user.weight, model.item.weight]
    dense = [p for p in model.parameters() if not any(p is s for s in sparse)]
    return sparse, dense


def run(opt):
    torch.manual_seed(0)
    model = TwoTower()
    ema = ModelEma(model, in_place=opt.fixed)
    sparse, dense = parameters(model)
    optimizers = torch.optim.SparseAdam(sparse, lr=1e-3), torch.optim.AdamW(dense, lr=1e-3)
    labels = torch.arange(opt.batch_size)
    for step in range(opt.steps):
        if step == 10:
            t0 = time.time()
        users, items = torch.randint(0, 60_000, (opt.batch_size,)), torch.randint(0, 40_000, (opt.batch_size,))
        loss = nn.functional.cross_entropy(model(users, items), labels)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        ema.update(model)
        if step % 50 == 0:
            print(f"{step:6d}/{opt.steps} {loss.item():.4f}")
    dt = time.time() - t0
    n = (opt.steps - 10) * opt.batch_size
    print(json.dumps({"steps": opt.steps, "samples": n, "seconds": dt, "samples_per_s": n / dt}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--fixed", action="store_true")
    run(parser.parse_args())
