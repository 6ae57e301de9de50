"""Detector pretraining with an exponential moving average of all weights."""

import argparse
import copy
import json
import math
import time

import torch
import torch.nn as nn


class Conv(nn.Module):
    def __init__(self, c1, c2, k=1, s=1):
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cv1, self.cv2 = Conv(c, c // 2), Conv(c // 2, c, 3)

    def forward(self, x):
        return x + self.cv2(self.cv1(x))


def backbone():
    layers = [Conv(3, 16, 3, 2), Conv(16, 24, 3, 2)]
    for width in (24, 32, 40):
        layers += [Bottleneck(width) for _ in range(10)]
        layers.append(Conv(width, width + 8, 3, 2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 20))


class ModelEMA:
    def __init__(self, model, decay=0.9999, tau=2000, batched=False):
        self.ema = copy.deepcopy(model).eval()
        self.updates, self.batched = 0, batched
        self.decay = lambda x: decay * (1 - math.exp(-x / tau))
        for p in self.ema.parameters():
            p.requires_grad_(False)
        if batched:
            self.pairs = self.floating(self.ema), self.floating(model)

    @staticmethod
    def floating(model):
        return [v for v in model.state_dict().values() if v.dtype.is_floating_point]

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        d = self.decay(self.updates)
        if self.batched:
            torch._foreach_lerp_(self.pairs[0], self.pairs[1], 1 - d)
            return
        msd = model.state_dict()
        for k, v in self.ema.state_dict().items():
            if v.dtype.is_floating_point:
                v *= d
                v += (1 - d) * msd[k].detach()


def run(opt):
    torch.manual_seed(0)
    model = backbone()
    ema = ModelEMA(model, batched=opt.fixed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.937, nesterov=True)
    images, labels = torch.rand(256, 3, 32, 32), torch.randint(0, 20, (256,))
    for i in range(opt.steps):
        if i == 10:
            t0 = time.time()
        pick = torch.randint(0, 256, (opt.batch_size,))
        loss = nn.functional.cross_entropy(model(images[pick]), labels[pick])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        ema.update(model)
        if i % 50 == 0:
            print(f"{i:6d}/{opt.steps} {loss.item():.4f}")
    dt = time.time() - t0
    n = (opt.steps - 10) * opt.batch_size
    print(json.dumps({"steps": opt.steps, "samples": n, "seconds": dt, "samples_per_s": n / dt}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=350)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--fixed", action="store_true")
    run(parser.parse_args())
