"""Makes trace.json.gz: batches of ever another size for a model that is compiled for fixed sizes, under torch.profiler."""

import gzip
import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule


def train():
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 32
    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10))
    compiled = torch.compile(model, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2, repeat=1)) as profiler:
        for size in range(16, 24):
            optimizer.zero_grad()
            compiled(torch.randn(size, 64)).square().mean().backward()
            optimizer.step()
            profiler.step()
    profiler.export_chrome_trace("trace.json")


train()
text = Path("trace.json").read_text()
names = {sys.prefix: "/home/user/.venv", sys.base_prefix: "/usr", os.getcwd(): "/home/user/project", os.uname().nodename: "machine"}
for name, new in names.items():
    text = text.replace(f'"{name}', f'"{new}')
Path("trace.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
os.unlink("trace.json")
