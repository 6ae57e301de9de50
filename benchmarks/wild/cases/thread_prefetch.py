"""Grasp quality from depth images; a thread prepares the next batches."""

import argparse
import json
import queue
import threading
import time

import numpy as np
import torch
from torch import nn

SIZE = 32


def perturb(image, rng, vectorized):
    """Multiplicative speckle and dead pixels, as the depth sensor makes them."""
    noise = rng.normal(1.0, 0.05, image.shape).astype(np.float32)
    dead = rng.random(image.shape) < 0.02
    if vectorized:
        return np.where(dead, 0.0, np.clip(image * noise, 0.0, 1.0)).astype(np.float32)
    out = image.copy()
    for y in range(SIZE):
        for x in range(SIZE):
            value = image[y, x] * noise[y, x]
            out[y, x] = 0.0 if dead[y, x] else min(max(value, 0.0), 1.0)
    return out


class PrefetchQueue:
    def __init__(self, depth, labels, batch_size, vectorized, seed=0):
        self.depth, self.labels, self.batch_size, self.vectorized = depth, labels, batch_size, vectorized
        self.rng = np.random.default_rng(seed)
        self.queue = queue.Queue(maxsize=4)
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.fill, daemon=True)
        self.thread.start()

    def fill(self):
        while not self.stopped.is_set():
            pick = self.rng.integers(0, len(self.depth), self.batch_size)
            images = np.stack([perturb(self.depth[i], self.rng, self.vectorized) for i in pick])
            self.queue.put((torch.from_numpy(images)[:, None], torch.from_numpy(self.labels[pick])))

    def next(self):
        return self.queue.get()

    def stop(self):
        self.stopped.set()
        while not self.queue.empty():
            self.queue.get_nowait()


def train(args):
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    depth = rng.random((1000, SIZE, SIZE), dtype=np.float32)
    batches = PrefetchQueue(depth, rng.integers(0, 2, 1000), args.batch_size, args.fixed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2048, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        x, y = batches.next()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: minibatch loss {loss.item():.3f}")
    seconds = time.perf_counter() - start
    batches.stop()
    samples = (args.steps - 10) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=300)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--fixed", action="store_true")
    train(ap.parse_args())
