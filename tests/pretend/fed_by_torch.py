"""Training with the framework for tests on batches of a loader of torch's: `input_s` a batch, `callback_s` after each update of 5 ms.

With `both` a model of torch's is updated too: once, where the other one is updated 200 times. With `workers` the loader has two.
"""

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


def draw(updates):
    time.sleep(callback_s)


pretend.is_asynchronous = False
trainer = pretend.Trainer(itertools.repeat([0.0]), update_s=0.005, callbacks=(draw,), counts=False)
model = torch.nn.Linear(2, 1)
# What it imports takes longer than the training.
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number, batch in enumerate(DataLoader(Slow(), batch_size=1, num_workers=2 * ("workers" in sys.argv))):
    trainer.run(1)
    if number == 100 and "both" in sys.argv:
        model(batch).sum().backward()
        optimizer.step()
trainer.close()
