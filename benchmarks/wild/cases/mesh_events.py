"""A graph network learns to move a cloth of springs; what is to be done next comes as a stream of events."""

import argparse
import itertools
import json
import time
from typing import NamedTuple

import torch
from torch import nn

SIDE, GRAPHS, WIDE = 20, 4, 64


class Gather(NamedTuple):
    """Gradients of one batch of graphs."""

    x: torch.Tensor
    target: torch.Tensor


class Apply(NamedTuple):
    number: int


class Cool(NamedTuple):
    factor: float


class Speak(NamedTuple):
    number: int


def mlp(i, o, norm=True):
    layers = [nn.Linear(i, WIDE), nn.SiLU(), nn.Linear(WIDE, WIDE), nn.SiLU(), nn.Linear(WIDE, o)]
    return nn.Sequential(*layers, *([nn.LayerNorm(o)] if norm else []))


class Round(nn.Module):
    def __init__(self):
        super().__init__()
        self.edge, self.node = mlp(3 * WIDE, WIDE), mlp(2 * WIDE, WIDE)

    def forward(self, h, e, here, there):
        e = e + self.edge(torch.cat([h[here], h[there], e], 1))
        heard = torch.zeros_like(h).index_add(0, there, e)
        return h + self.node(torch.cat([h, heard], 1)), e


class Simulator(nn.Module):
    def __init__(self, rounds=3):
        super().__init__()
        self.nodes, self.edges, self.out = mlp(6, WIDE), mlp(4, WIDE), mlp(WIDE, 3, norm=False)
        self.rounds = nn.ModuleList(Round() for _ in range(rounds))

    def forward(self, x, here, there):
        apart = x[here, :3] - x[there, :3]
        h, e = self.nodes(x), self.edges(torch.cat([apart, apart.norm(dim=1, keepdim=True)], 1))
        for r in self.rounds:
            h, e = r(h, e, here, there)
        return self.out(h)


def cloth():
    """Both directions of all springs of GRAPHS cloths."""
    n = torch.arange(SIDE * SIDE).view(SIDE, SIDE)
    one = torch.cat([torch.stack([n[:, :-1].flatten(), n[:, 1:].flatten()]), torch.stack([n[:-1].flatten(), n[1:].flatten()])], 1)
    both = torch.cat([one, one.flip(0)], 1)
    return torch.cat([both + g * SIDE * SIDE for g in range(GRAPHS)], 1)


def cloths(here, there, seed):
    g = torch.Generator().manual_seed(seed)
    line = torch.linspace(-1, 1, SIDE)
    flat = torch.stack([*torch.meshgrid(line, line, indexing="ij"), torch.zeros(SIDE, SIDE)], 2).view(-1, 3).repeat(GRAPHS, 1)
    while True:
        place = flat + 0.05 * torch.randn(flat.shape, generator=g)
        speed = 0.1 * torch.randn(flat.shape, generator=g)
        pull = torch.zeros_like(place).index_add(0, there, place[here] - place[there])
        yield Gather(torch.cat([place, speed], 1), pull - 0.2 * speed)


def events(steps, source):
    for number in range(1, steps + 1):
        yield from itertools.islice(source, 2)
        yield Apply(number)
        if number % 40 == 0:
            yield Cool(0.7)
        if number % 50 == 0:
            yield Speak(number)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = parser.parse_args()
    torch.manual_seed(2)
    here, there = cloth()
    model = Simulator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    smooth = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    start, last = 0.0, torch.zeros(())
    for event in events(args.steps, cloths(here, there, 3)):
        match event:
            case Gather(x, target):
                loss = (model(x, here, there) - target).square().mean()
                (loss / 2).backward()
                last = loss.detach()
            case Apply(number):
                optimizer.step()
                optimizer.zero_grad()
                smooth.update_parameters(model)
                if number == 8:
                    start = time.perf_counter()
            case Cool(factor):
                for group in optimizer.param_groups:
                    group["lr"] *= factor
            case Speak(number):
                print(f"{number}: {last:.5f}")
    seconds = time.perf_counter() - start
    samples = (args.steps - 8) * 2 * GRAPHS
    print(json.dumps({"steps": args.steps, "loss": last.item(), "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
