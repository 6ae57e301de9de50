"""Workers whose numeric library takes eight threads each on a machine of two cores."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PROBLEM = sys.argv[1:] == ["problem"]


class Filtered(Dataset):
    def __init__(self):
        self.kernel = torch.randn(16, 3, 5, 5)

    def __len__(self):
        return 600

    def __getitem__(self, index):
        image = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(index))
        return nn.functional.conv2d(image, self.kernel).mean((0, 2, 3)), index % 10


def start(worker):
    torch.set_num_threads(8 if PROBLEM else 1)


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Filtered(), batch_size=8, num_workers=2, worker_init_fn=start, persistent_workers=True)
for _ in range(5 if PROBLEM else 15):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
