"""A thread beside the training that scores in Python all the time, or sleeps."""

import sys
import threading
import time

import torch
from torch import nn

PROBLEM = sys.argv[1:] == ["problem"]


def score(count):
    return sum(index % 7 for index in range(count))


def keep_scoring():
    while True:
        if PROBLEM:
            score(20_000)
        else:
            time.sleep(0.01)


torch.set_num_threads(1)
threading.Thread(target=keep_scoring, daemon=True).start()
model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(12)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
inputs = torch.randn(64, 256)
for _ in range(150 if PROBLEM else 600):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
