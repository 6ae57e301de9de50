"""Training with torch where the framework for tests is imported, and updated once: `input_s` a batch, `callback_s` beside each of 200."""

import itertools
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

import pretend

input_s, callback_s = map(float, sys.argv[1:3])


class Slow(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        time.sleep(input_s)
        return torch.zeros(2)


def draw():
    time.sleep(callback_s)


other = pretend.Trainer(itertools.repeat([0.0]), update_s=0.005, counts=False)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number, batch in enumerate(DataLoader(Slow(), batch_size=1)):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    draw()
    if number == 100:
        other.run(1)
other.close()
