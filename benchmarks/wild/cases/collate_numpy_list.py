"""Speech commands: log-mel features are cropped and batched by hand."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Features(Dataset):
    def __init__(self, n=800):
        rng = np.random.default_rng(0)
        self.mels = [rng.standard_normal((rng.integers(60, 90), 40)).astype(np.float32) for _ in range(n)]
        self.words = rng.integers(0, 12, n)

    def __len__(self):
        return len(self.mels)

    def __getitem__(self, i):
        return self.mels[i], self.words[i]


class Collater:
    def __init__(self, frames, stack):
        self.frames, self.stack = frames, stack

    def __call__(self, batch):
        mels, words = [], []
        for mel, word in batch:
            first = np.random.randint(0, len(mel) - self.frames + 1)
            mels.append(mel[first : first + self.frames].T)
            words.append(word)
        if self.stack:
            return torch.from_numpy(np.stack(mels)), torch.from_numpy(np.array(words))
        return torch.tensor(mels, dtype=torch.float), torch.tensor(words)


def network():
    return nn.Sequential(
        nn.Conv1d(40, 48, 5, stride=2), nn.ReLU(), nn.Conv1d(48, 64, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 12)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    bs = 32
    loader = DataLoader(Features(), batch_size=bs, shuffle=True, collate_fn=Collater(frames=60, stack=args.fixed))
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    while step < args.steps:
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == 10:
                start = time.time()
            if step % 50 == 0:
                print(f"(steps: {step}) loss = {loss.item():.4f}")
            if step == args.steps:
                break
    seconds = time.time() - start
    samples = (args.steps - 10) * bs
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
