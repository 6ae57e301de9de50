"""A log line for each parameter after every step, or after each fiftieth."""

import logging
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROBLEM = sys.argv[1:] == ["problem"]
log = logging.getLogger("training")


def tell(step, loss, names):
    if PROBLEM or step % 50 == 0:
        for name in names:
            log.info("step %d, loss %.4f: %s has its gradient", step, loss, name)


logging.basicConfig(filename="training.log", level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
torch.set_num_threads(1)
data = TensorDataset(torch.randn(3200, 256), torch.randint(0, 10, (3200,)))
model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 256), nn.Tanh(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
names = [f"{name} ({part})" for name, _ in model.named_parameters() for part in range(30)]
step = 0
for _ in range(4):
    for inputs, targets in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        step += 1
        tell(step, float(loss.detach()), names)
