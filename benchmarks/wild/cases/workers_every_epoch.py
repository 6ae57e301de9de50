"""Textual inversion on a handful of pictures: an epoch is a few steps."""

import argparse
import json
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class FewPictures(Dataset):
    def __init__(self, folder, size=48):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.size = size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        image = Image.open(self.paths[i]).convert("RGB").resize((self.size, self.size), Image.BICUBIC)
        pixels = torch.from_numpy(np.asarray(image, dtype=np.float32)).permute(2, 0, 1) / 127.5 - 1
        return {"pixel_values": pixels, "token": i % 4}


class Denoiser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.token = nn.Embedding(4, width)
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.mid = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x, token):
        return self.mid(self.inp(x) + self.token(token)[:, :, None, None])


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_train_steps", "--steps", dest="steps", type=int, default=300)
    parser.add_argument("--train_batch_size", type=int, default=4)
    parser.add_argument("--dataloader_num_workers", type=int, default=2)
    parser.add_argument("--fixed", action="store_true", help="persistent_workers=True")
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(24):
            Image.fromarray(rng.integers(0, 255, (96, 96, 3), dtype=np.uint8)).save(os.path.join(folder, f"{i:03d}.jpg"))
        train_dataloader = DataLoader(
            FewPictures(folder),
            batch_size=args.train_batch_size,
            shuffle=True,
            num_workers=args.dataloader_num_workers,
            persistent_workers=args.fixed,
        )
        model = Denoiser()
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
        global_step = 0
        while global_step < args.steps:
            for batch in train_dataloader:
                clean = batch["pixel_values"]
                noise = torch.randn_like(clean)
                loss = nn.functional.mse_loss(model(clean + noise, batch["token"]), noise)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                global_step += 1
                if global_step == 12:
                    start = time.perf_counter()
                if global_step % 60 == 0:
                    print(f"step {global_step} loss {loss.detach().item():.4f}")
                if global_step >= args.steps:
                    break
        seconds = time.perf_counter() - start
    samples = (global_step - 12) * args.train_batch_size
    print(json.dumps({"steps": global_step, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
