"""Wide MLP for regression; every step writes a line of metrics to a file that stays open."""

import argparse
import csv
import json
import os
import tempfile
import time

import torch
import torch.nn as nn


class Log:
    def __init__(self, path):
        self.handle = open(path, "w", newline="")
        self.writer = csv.writer(self.handle)
        self.writer.writerow(["step", "loss", "mae", "lr", "elapsed"])

    def write(self, *row):
        self.writer.writerow(row)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=250)
    p.add_argument("--fixed", action="store_true", help="nothing to fix")
    a = p.parse_args()
    torch.manual_seed(0)
    x = torch.randn(8192, 256)
    y = (x[:, :8].prod(1) + x.mean(1))[:, None]
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    bs = 512
    with tempfile.TemporaryDirectory() as folder:
        log = Log(os.path.join(folder, "metrics.csv"))
        for step in range(a.steps):
            if step == 10:
                start = time.perf_counter()
            rows = torch.randint(0, len(x), (bs,))
            out = model(x[rows])
            loss = nn.functional.mse_loss(out, y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mae = (out.detach() - y[rows]).abs().mean().item()
            log.write(step, loss.item(), mae, optimizer.param_groups[0]["lr"], time.perf_counter())
            if step % 50 == 0:
                print(f"step {step:4d}  loss {loss.item():.4f}  mae {mae:.4f}")
        seconds = time.perf_counter() - start
        log.handle.close()
    n = (a.steps - 10) * bs
    print(json.dumps({"steps": a.steps, "samples": n, "seconds": seconds, "samples_per_s": n / seconds}))


if __name__ == "__main__":
    main()
