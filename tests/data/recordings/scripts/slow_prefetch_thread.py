"""A thread of the script's own packs texts to measure them and cannot keep up with the loop, or has them measured already."""

import queue
import random
import sys
import threading
import zlib

import torch
from torch import nn

PROBLEM = sys.argv[1:] == ["problem"]
STEPS = 120
TEXT = random.Random(1).randbytes(60_000)
MEASURED = len(zlib.compress(TEXT, 9))


def measured(index):
    length = len(zlib.compress(TEXT, 9)) if PROBLEM else MEASURED
    return torch.full((64,), index / length)


def keep_loading(ready):
    for _ in range(STEPS):
        ready.put(torch.stack([measured(index) for index in range(16)]))


torch.set_num_threads(1)
ready = queue.Queue(4)
threading.Thread(target=keep_loading, args=(ready,), daemon=True).start()
model = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(STEPS):
    inputs = ready.get()
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
