"""Two ranks over gloo that do the same; with `one_slow` the second makes its batches slowly, and the first waits for it in backward."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

ONE_SLOW = sys.argv[1:] == ["one_slow"]


class Samples(Dataset):
    def __init__(self, slow):
        self.slow = slow
        self.inputs = torch.randn(320, 128)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        if self.slow:
            time.sleep(0.01)
        return self.inputs[index]


torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Samples(ONE_SLOW and dist.get_rank() == 1), batch_size=8, shuffle=True)
for _ in range(3):
    for inputs in loader:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
# gloo's own thread may still hold what backward left there.
dist.barrier()
time.sleep(0.2)
dist.destroy_process_group()
