"""Spoken keywords from raw waves: spectrograms on the batch, crops that grow, mixup, a shadow model, a bar. Nothing is wrong here."""

import argparse
import json
import math
import os
import queue
import tempfile
import threading
import time

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

RATE, CLASSES, BATCH = 8000, 12, 32


def record(path, count, seed=0):
    """Three tones a class, some noise; int16 in one file, read by memmap."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    waves = np.memmap(path, "int16", "w+", shape=(count, RATE))
    t = np.arange(RATE) / RATE
    for i, label in enumerate(labels):
        tones = sum(np.sin(2 * math.pi * (180 + 70 * label) * k * t + rng.uniform(0, 6)) / k for k in (1, 2, 3))
        waves[i] = (6000 * tones * np.exp(-3 * (t - rng.uniform(0.2, 0.8)) ** 2) + rng.normal(0, 900, RATE)).clip(-32000, 32000)
    waves.flush()
    return labels


class Crops(threading.Thread):
    """Fills a queue with batches of crops; how long they are, the trainer may change."""

    def __init__(self, path, labels, seed=1):
        super().__init__(daemon=True)
        self.waves = np.memmap(path, "int16", "r", shape=(len(labels), RATE))
        self.labels, self.rng = labels, np.random.default_rng(seed)
        self.length, self.queue, self.over = RATE // 2, queue.Queue(4), threading.Event()

    def one(self):
        chosen = np.sort(self.rng.choice(len(self.labels), BATCH, replace=False))
        at = int(self.rng.integers(0, RATE - self.length + 1))
        return self.waves[chosen, at : at + self.length].astype("float32") / 32768, self.labels[chosen]

    def run(self):
        while not self.over.is_set():
            item = self.one()
            while not self.over.is_set():
                try:
                    self.queue.put(item, timeout=0.2)
                    break
                except queue.Full:
                    pass

    def __iter__(self):
        while True:
            x, y = self.queue.get()
            yield torch.from_numpy(x), torch.from_numpy(y)


class LogMel(nn.Module):
    def __init__(self, n_fft=256, hop=80, mels=40):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        mel = lambda f: 2595 * math.log10(1 + f / 700)  # noqa: E731
        edges = 700 * (10 ** (torch.linspace(mel(60), mel(RATE / 2), mels + 2) / 2595) - 1)
        f = torch.linspace(0, RATE / 2, n_fft // 2 + 1)[:, None]
        up, down = (f - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - f) / (edges[2:] - edges[1:-1])
        self.register_buffer("bank", torch.minimum(up, down).clamp(min=0))

    def forward(self, wave):
        power = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True).abs() ** 2
        return (power.transpose(1, 2) @ self.bank + 1e-5).log().transpose(1, 2)[:, None]


def network():
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))

    return nn.Sequential(LogMel(), nn.BatchNorm2d(1), block(1, 32), block(32, 64), block(64, 96), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, CLASSES))


class Shadow:
    """The average of the weights, moved in one call for all of them."""

    def __init__(self, model, keep=0.99):
        self.follow, self.keep = list(model.parameters()), keep
        self.average = [p.detach().clone() for p in self.follow]

    def move(self):
        torch._foreach_lerp_(self.average, [p.detach() for p in self.follow], 1 - self.keep)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=170)
    parser.add_argument("--fixed", action="store_true", help="changes nothing")
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "waves.i16")
        crops = Crops(path, record(path, 900))
        crops.start()
        model = network()
        shadow = Shadow(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
        bar = tqdm(zip(range(args.steps), crops), total=args.steps, mininterval=2.0, ncols=80)
        for step, (x, y) in bar:
            share = float(rng.beta(0.3, 0.3))
            other = torch.randperm(len(x))
            logits = model(share * x + (1 - share) * x[other])
            loss = share * nn.functional.cross_entropy(logits, y) + (1 - share) * nn.functional.cross_entropy(logits, y[other])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            shadow.move()
            if step == 8:
                start = time.perf_counter()
            if step % 40 == 39:
                bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
                crops.length = min(RATE, crops.length + RATE // 16)
        seconds = time.perf_counter() - start
        crops.over.set()
        crops.join()
        torch.save({"model": model.state_dict(), "shadow": shadow.average}, os.path.join(folder, "last.pt"))
    samples = (args.steps - 9) * BATCH
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
