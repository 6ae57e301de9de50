"""Anchor-free detector: targets are packed and matched per image, then the loss is taken."""

import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

GRID, MAX_BOXES = 8, 12


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 5, 1)
        )

    def forward(self, x):
        return self.net(x).flatten(2).transpose(1, 2)


def iou(a, b):
    top = torch.maximum(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
    low = torch.minimum(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
    inter = (low - top).clamp_min(0).prod(-1)
    return inter / (a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - inter + 1e-6)


class Loss:
    def __init__(self, vectorized):
        self.vectorized = vectorized
        ys, xs = torch.meshgrid(torch.arange(GRID), torch.arange(GRID), indexing="ij")
        self.centers = torch.stack([xs, ys], -1).reshape(-1, 2).float() / GRID

    def decode(self, out):
        return torch.cat([self.centers + out[..., :2].tanh() * 0.2, out[..., 2:4].sigmoid()], -1)

    def assign(self, boxes, targets):
        """For each cell the ground truth that overlaps it most, image by image and box by box."""
        best = torch.zeros(boxes.shape[:2])
        chosen = torch.zeros(boxes.shape)
        for i in range(boxes.shape[0]):
            for j in range(targets.shape[1]):
                overlap = iou(boxes[i], targets[i, j].expand_as(boxes[i]))
                better = overlap > best[i]
                best[i] = torch.where(better, overlap, best[i])
                chosen[i] = torch.where(better[:, None], targets[i, j].expand_as(boxes[i]), chosen[i])
        return best, chosen

    def assign_batched(self, boxes, targets):
        best, which = iou(boxes[:, :, None], targets[:, None]).max(2)
        return best, targets.gather(1, which[..., None].expand(-1, -1, 4)) * (best > 0)[..., None]

    def __call__(self, out, targets):
        boxes = self.decode(out)
        with torch.no_grad():
            best, chosen = (self.assign_batched if self.vectorized else self.assign)(boxes, targets)
        return F.binary_cross_entropy_with_logits(out[..., 4], best.clamp(0, 1)) + F.l1_loss(boxes * (best > 0.1)[..., None], chosen * (best > 0.1)[..., None])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=1200)
    p.add_argument("--fixed", action="store_true")
    args = p.parse_args()
    torch.manual_seed(0)
    images, targets = torch.rand(64, 3, 64, 64), torch.rand(64, MAX_BOXES, 4).clamp(0.1, 0.9)
    model, criterion, bs = Head(), Loss(vectorized=args.fixed), 8
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for it in range(args.steps):
        pick = torch.randint(0, 64, (bs,))
        loss = criterion(model(images[pick]), targets[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if it == 10:
            t0 = time.perf_counter()
        if it % 50 == 0:
            print(f"iter {it} loss {loss.item():.4f}")
    dt = time.perf_counter() - t0
    n = (args.steps - 11) * bs
    print(json.dumps({"steps": args.steps, "samples": n, "seconds": dt, "samples_per_s": n / dt}))


if __name__ == "__main__":
    main()
