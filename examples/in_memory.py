"""Train a small network on tensors in memory, in a plain loop without a DataLoader; `--log-every-step` plants a slow evaluation."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn

SAMPLES = 20_000
FEATURES = 64
CLASSES = 10
QUANTILES = np.linspace(0.01, 0.99, 21)


def make_tensors() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(SAMPLES, FEATURES)
    hidden_rule = torch.randn(FEATURES, CLASSES)
    return inputs, (inputs @ hidden_rule).argmax(dim=1)


def make_model(width: int = 512) -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
    )


def evaluate_histograms(model: nn.Module) -> dict[str, list[float]]:
    """How the weights of each parameter are distributed, in shape and in size, as one would log it."""
    histograms = {}
    for name, parameter in model.named_parameters():
        weights = parameter.detach().numpy()
        histograms[name] = np.histogram(weights, bins=64)[0].tolist()
        histograms[f"{name}, quantiles"] = np.quantile(weights, QUANTILES).tolist()
        histograms[f"{name}, quantiles of sizes"] = np.quantile(np.abs(weights), QUANTILES).tolist()
    return histograms


def train(inputs: torch.Tensor, targets: torch.Tensor, *, steps: int, batch_size: int, log_every_step: bool) -> dict[str, float]:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = 0
    started = time.perf_counter()
    while step < steps:
        order = torch.randperm(len(inputs))
        for first in range(0, len(order) - batch_size + 1, batch_size):
            chosen = order[first : first + batch_size]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs[chosen]), targets[chosen])
            loss.backward()
            optimizer.step()
            step += 1
            if log_every_step:
                evaluate_histograms(model)
            if step % 100 == 0:
                print(f"step {step}: loss {loss.item():.4f}", flush=True)
            if step == steps:
                break
    return {"steps": step, "samples_per_s": step * batch_size / (time.perf_counter() - started), "loss": loss.item()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--log-every-step", action="store_true", help="compute histograms of all weights after every step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    inputs, targets = make_tensors()
    result = train(inputs, targets, steps=arguments.steps, batch_size=arguments.batch_size, log_every_step=arguments.log_every_step)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
