"""Surrogate of a simulation, trained with a second-order optimizer of one's own."""

import argparse
import json
import math
import time

import torch
from torch import nn


class KroneckerPreconditioned(torch.optim.Optimizer):
    """Gradients of matrices are multiplied by the inverse fourth roots of their averaged outer products."""

    def __init__(self, params, lr=0.02, momentum=0.9, decay=0.95, eps=1e-6, root_every=1):
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay, "eps": eps})
        self.root_every = root_every

    @staticmethod
    def inverse_root(matrix, eps):
        values, vectors = torch.linalg.eigh(matrix + eps * torch.eye(len(matrix)))
        return (vectors * values.clamp_min(eps).pow(-0.25)) @ vectors.T

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"], state["momentum"] = 0, torch.zeros_like(p)
                    if p.dim() == 2:
                        state["sides"] = [torch.eye(n) * group["eps"] for n in p.shape]
                        state["roots"] = [torch.eye(n) for n in p.shape]
                update = p.grad
                if p.dim() == 2:
                    for side, outer in zip(state["sides"], (p.grad @ p.grad.T, p.grad.T @ p.grad), strict=True):
                        side.mul_(group["decay"]).add_(outer, alpha=1 - group["decay"])
                    if state["step"] % self.root_every == 0:
                        state["roots"] = [self.inverse_root(side, group["eps"]) for side in state["sides"]]
                    update = state["roots"][0] @ p.grad @ state["roots"][1]
                    update *= p.grad.norm() / update.norm().clamp_min(1e-12)
                state["momentum"].mul_(group["momentum"]).add_(update)
                p.add_(state["momentum"], alpha=-group["lr"])
                state["step"] += 1


def simulate(n=12_000, inputs=48, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, inputs, generator=g) * 2 - 1
    waves = torch.randn(inputs, 24, generator=g) / math.sqrt(inputs)
    return x, torch.sin(3 * x @ waves)


def main(args):
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(48, 320), nn.Tanh(), nn.Linear(320, 320), nn.Tanh(), nn.Linear(320, 320), nn.Tanh(), nn.Linear(320, 24))
    optimizer = KroneckerPreconditioned(net.parameters(), root_every=25 if args.fixed else 1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=100, gamma=0.7)
    inputs, outputs = simulate()
    iteration, begin = 0, time.monotonic()
    while iteration < args.steps:
        for ids in torch.randperm(len(inputs)).split(args.batch_size)[:-1]:
            error = (net(inputs[ids]) - outputs[ids]).square().mean()
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            schedule.step()
            iteration += 1
            if iteration == 10:
                begin = time.monotonic()
            if iteration % 40 == 0:
                print(f"iteration {iteration:4d} error {error.item():.5f} lr {schedule.get_last_lr()[0]:.4f}", flush=True)
            if iteration == args.steps:
                break
    return time.monotonic() - begin


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--fixed", action="store_true")
    cli = parser.parse_args()
    elapsed = main(cli)
    samples = (cli.steps - 10) * cli.batch_size
    print(json.dumps({"steps": cli.steps, "samples": samples, "seconds": elapsed, "samples_per_s": samples / elapsed}))
