"""The area under the curve of all that was seen so far, computed in every step instead of each hundredth."""

import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]
scores, labels = [], []


def area_under_curve():
    score, label = np.concatenate(scores[-300:]), np.concatenate(labels[-300:])
    order = np.argsort(score)
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    positive = label == 1
    count = positive.sum()
    return (ranks[positive].sum() - count * (count + 1) / 2) / max(count * (len(label) - count), 1)


def report(step, logits, targets):
    scores.append(logits.detach().numpy().ravel())
    labels.append(targets.numpy().ravel())
    if PROBLEM or step % 100 == 0:
        print(f"step {step}: {area_under_curve():.3f}")


torch.set_num_threads(1)
data = TensorDataset(torch.randn(3200, 512), torch.randint(0, 2, (3200, 1)).float())
model = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
for _ in range(16):
    for inputs, targets in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        logits = model(inputs)
        nn.functional.binary_cross_entropy_with_logits(logits, targets).backward()
        optimizer.step()
        step += 1
        report(step, logits, targets)
