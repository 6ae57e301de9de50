"""A small U-Net on synthetic cells; pictures and masks are bent at random, as for few microscope pictures one does."""

import argparse
import json
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.ndimage import gaussian_filter, map_coordinates
from torch.utils.data import DataLoader, Dataset

SIZE, CROP = 192, 48


def paint_cells(count, seed):
    rng = np.random.default_rng(seed)
    ys, xs = np.mgrid[:SIZE, :SIZE].astype("float32")
    pictures, masks = [], []
    for _ in range(count):
        mask = np.zeros((SIZE, SIZE), "float32")
        for _ in range(int(rng.integers(10, 24))):
            cy, cx = rng.uniform(8, SIZE - 8, 2)
            mask[np.hypot(ys - cy, xs - cx) < rng.uniform(5, 13)] = 1
        pictures.append(0.5 * mask + rng.normal(0.3, 0.25, mask.shape).astype("float32"))
        masks.append(mask)
    return np.stack(pictures), np.stack(masks)


class Bend:
    """Smooth random displacement, the same for the picture and its mask."""

    def __init__(self, strength=9.0, sigma=11.0, order=3):
        self.strength, self.sigma, self.order = strength, sigma, order
        self.base = np.mgrid[:SIZE, :SIZE].astype("float32")

    def displacement(self, rng):
        noise = rng.uniform(-1, 1, (2, SIZE, SIZE)).astype("float32")
        field = np.stack([gaussian_filter(noise[0], self.sigma), gaussian_filter(noise[1], self.sigma)])
        return field / np.abs(field).max() * self.strength

    def __call__(self, picture, mask, rng):
        where = self.base + self.displacement(rng)
        return map_coordinates(picture, where, order=self.order, mode="reflect"), map_coordinates(mask, where, order=0, mode="reflect")


class CoarseBend(Bend):
    """Twelve by twelve random arrows, enlarged."""

    def displacement(self, rng):
        arrows = torch.from_numpy(rng.uniform(-1, 1, (1, 2, 12, 12)).astype("float32"))
        return F.interpolate(arrows, size=(SIZE, SIZE), mode="bilinear")[0].numpy() * self.strength


class Cells(Dataset):
    def __init__(self, pictures, masks, bend, seed=0):
        self.pictures, self.masks, self.bend = pictures, masks, bend
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        picture, mask = self.bend(self.pictures[i], self.masks[i], self.rng)
        y, x = self.rng.integers(0, SIZE - CROP, 2)
        picture, mask = picture[y : y + CROP, x : x + CROP], mask[y : y + CROP, x : x + CROP]
        if self.rng.random() < 0.5:
            picture, mask = picture[:, ::-1], mask[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(picture))[None], torch.from_numpy(np.ascontiguousarray(mask))[None]


def double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.a, self.b, self.c = double(1, w), double(w, 2 * w), double(2 * w, 4 * w)
        self.up1, self.d = nn.ConvTranspose2d(4 * w, 2 * w, 2, 2), double(4 * w, 2 * w)
        self.up2, self.e = nn.ConvTranspose2d(2 * w, w, 2, 2), double(2 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        d = self.d(torch.cat([b, self.up1(c)], 1))
        return self.out(self.e(torch.cat([a, self.up2(d)], 1)))


def dice(logits, target):
    p = logits.sigmoid()
    return 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)


class Segmentation:
    def __init__(self, args):
        bend = CoarseBend(order=1) if args.fixed else Bend()
        self.loader = DataLoader(Cells(*paint_cells(240, 0), bend), args.batch_size, shuffle=True, drop_last=True)
        self.model = UNet()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.95)
        self.args, self.step, self.start = args, 0, None

    def train_epoch(self):
        total = 0.0
        for picture, mask in self.loader:
            logits = self.model(picture)
            loss = F.binary_cross_entropy_with_logits(logits, mask) + dice(logits, mask)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
            self.step += 1
            if self.step == 6:
                self.start = time.perf_counter()
            if self.step == self.args.steps:
                return None
        self.scheduler.step()
        return total / len(self.loader)

    def run(self):
        epoch = 0
        while (mean := self.train_epoch()) is not None:
            epoch += 1
            print(f"epoch {epoch}: {float(mean):.4f}", flush=True)
        seconds = time.perf_counter() - self.start
        samples = (self.step - 6) * self.args.batch_size
        print(json.dumps({"steps": self.step, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--fixed", action="store_true", help="displace by a coarse grid, and sample linearly")
    torch.manual_seed(0)
    Segmentation(parser.parse_args()).run()
