"""Segmentation with Accelerate: pictures are decoded by one worker that keeps up, one checkpoint at the end."""

import argparse
import io
import json
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.blobs = []
        for _ in range(n):
            buf = io.BytesIO()
            Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).resize((64, 64)).save(buf, "PNG")
            self.blobs.append(buf.getvalue())

    def __len__(self):
        return len(self.blobs)

    def __getitem__(self, i):
        pixels = np.asarray(Image.open(io.BytesIO(self.blobs[i])).convert("RGB"), dtype=np.float32) / 255
        return torch.from_numpy(pixels).permute(2, 0, 1), torch.from_numpy((pixels.mean(2) > 0.5).astype(np.int64))


class SegNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU())
        self.mid = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU())
        self.out = nn.Conv2d(2 * c, 2, 3, padding=1)

    def forward(self, x):
        e = self.enc(x)
        m = nn.functional.interpolate(self.mid(e), scale_factor=2)
        return self.out(torch.cat([e, m], 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = parser.parse_args()
    torch.manual_seed(0)
    bs = 8
    accelerator = Accelerator(cpu=True)
    loader = DataLoader(Blobs(800), batch_size=bs, shuffle=True, num_workers=1, persistent_workers=True)
    model = SegNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    step, correct, seen = 0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        while step < args.steps:
            for x, y in loader:
                logits = model(x)
                loss = nn.functional.cross_entropy(logits, y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                correct += (logits.detach().argmax(1) == y).sum().item()
                seen += y.numel()
                step += 1
                if step == 8:
                    start = time.perf_counter()
                if step % 25 == 0:
                    accelerator.print(f"step {step} loss {loss.item():.4f} accuracy {correct / seen:.3f}")
                if step == args.steps:
                    break
        seconds = time.perf_counter() - start
        accelerator.save(model.state_dict(), os.path.join(folder, "last.pt"))
    samples = (args.steps - 8) * bs
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
