"""Keyword spotting on one-second clips, with log-mel features made by the data set."""

import argparse
import json
import os
import tempfile
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class AudioConfig:
    sample_rate: int = 16000
    n_fft: int = 2048
    hop: int = 512
    n_mels: int = 128


def hz_to_mel(hz):
    return 2595.0 * np.log10(1.0 + np.asarray(hz, dtype=np.float64) / 700.0)


def mel_to_hz(mel):
    return 700.0 * (10.0 ** (np.asarray(mel, dtype=np.float64) / 2595.0) - 1.0)


def mel_filters(cfg):
    """Triangular filters, one row per mel band."""
    bins = np.linspace(0, cfg.sample_rate / 2, cfg.n_fft // 2 + 1)
    edges = mel_to_hz(np.linspace(hz_to_mel(20.0), hz_to_mel(cfg.sample_rate / 2), cfg.n_mels + 2))
    weights = np.zeros((cfg.n_mels, len(bins)))
    for band in range(cfg.n_mels):
        left, centre, right = edges[band : band + 3]
        rising = (bins - left) / (centre - left)
        falling = (right - bins) / (right - centre)
        weights[band] = np.maximum(0.0, np.minimum(rising, falling))
        weights[band] *= 2.0 / (right - left)
    return torch.from_numpy(weights.astype(np.float32))


class LogMel:
    def __init__(self, cfg, cached):
        self.cfg = cfg
        self.filters = mel_filters(cfg) if cached else None

    def __call__(self, wave):
        window = torch.hann_window(self.cfg.n_fft)
        spectrum = torch.stft(wave, self.cfg.n_fft, self.cfg.hop, window=window, return_complex=True).abs().square()
        filters = mel_filters(self.cfg) if self.filters is None else self.filters
        return torch.log(filters @ spectrum + 1e-6)


class Keywords(Dataset):
    def __init__(self, folder, cfg, cached):
        self.waves = np.load(os.path.join(folder, "waves.npy"), mmap_mode="r")
        self.labels = np.load(os.path.join(folder, "labels.npy"))
        self.features = LogMel(cfg, cached)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        wave = torch.from_numpy(self.waves[i].astype(np.float32) / 32768.0)
        return self.features(wave), self.labels[i]


def synthesize(folder, cfg, count=1600, words=10):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, words, count)
    t = np.arange(cfg.sample_rate) / cfg.sample_rate
    waves = np.empty((count, cfg.sample_rate), dtype=np.int16)
    for i, word in enumerate(labels):
        tone = np.sin(2 * np.pi * (200 + 150 * word) * t + rng.uniform(0, 6)) * np.exp(-3 * t)
        waves[i] = (8000 * (tone + 0.3 * rng.standard_normal(len(t)))).clip(-32768, 32767)
    np.save(os.path.join(folder, "waves.npy"), waves)
    np.save(os.path.join(folder, "labels.npy"), labels)


class KeywordNet(nn.Module):
    def __init__(self, cfg, words=10):
        super().__init__()
        self.conv1 = nn.Conv1d(cfg.n_mels, 128, 5, padding=2)
        self.conv2 = nn.Conv1d(128, 128, 5, padding=2)
        self.out = nn.Linear(128, words)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.out(x.mean(-1))


class Trainer:
    def __init__(self, model, loader, lr=1e-3):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.global_step = 0

    def train_step(self, batch):
        features, words = batch
        loss = F.cross_entropy(self.model(features), words)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        return loss.detach()

    def fit(self, max_steps, warmup=10):
        started = time.perf_counter()
        while True:
            for batch in self.loader:
                loss = self.train_step(batch)
                self.global_step += 1
                if self.global_step == warmup:
                    started = time.perf_counter()
                if self.global_step % 50 == 0:
                    print(f"[{self.global_step}/{max_steps}] loss={float(loss):.3f}", flush=True)
                if self.global_step >= max_steps:
                    return time.perf_counter() - started, max_steps - warmup


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=200)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--fixed", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(1)
    cfg = AudioConfig()
    with tempfile.TemporaryDirectory() as folder:
        synthesize(folder, cfg)
        dataset = Keywords(folder, cfg, cached=args.fixed)
        loader = DataLoader(dataset, batch_size=args.batch, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True)
        seconds, steps = Trainer(KeywordNet(cfg), loader).fit(args.steps)
    samples = steps * args.batch
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
