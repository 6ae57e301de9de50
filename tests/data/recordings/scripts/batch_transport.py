"""A batch of sixty little tensors, each of which goes through the queue by itself, instead of one table."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PROBLEM = sys.argv[1:] == ["problem"]
COLUMNS = 60


class Table(Dataset):
    def __init__(self):
        self.values = torch.randn(2000, COLUMNS)

    def __len__(self):
        return len(self.values) // 20

    def __getitem__(self, index):
        # One batch: the table holds the batches as they are.
        rows = self.values[index * 20 : index * 20 + 20]
        if PROBLEM:
            return {f"column_{k}": rows[:, k].clone() for k in range(COLUMNS)}
        return {"columns": rows.clone()}


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(COLUMNS, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Table(), batch_size=None, shuffle=True, num_workers=1, persistent_workers=True)
for _ in range(6 if PROBLEM else 30):
    for batch in loader:
        inputs = torch.stack(list(batch.values()), 1) if PROBLEM else batch["columns"]
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
