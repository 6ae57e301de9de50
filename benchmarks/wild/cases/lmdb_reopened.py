"""Energies of small molecules from an LMDB file."""

import argparse
import json
import os
import pickle
import tempfile
import time

import lmdb
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ATOMS = 24


def write_database(path, n):
    rng = np.random.default_rng(0)
    env = lmdb.open(path, subdir=False, map_size=1 << 30)
    with env.begin(write=True) as txn:
        for i in range(n):
            pos = rng.standard_normal((ATOMS, 3)).astype(np.float32)
            record = {"pos": pos, "z": rng.integers(1, 10, ATOMS), "energy": float(np.square(pos).sum())}
            txn.put(str(i).encode(), pickle.dumps(record))
        txn.put(b"length", str(n).encode())
    env.close()


class MoleculeLmdb(Dataset):
    def __init__(self, path, keep_open):
        self.path, self.keep_open = path, keep_open
        self.env = self.connect() if keep_open else None
        env = self.env or self.connect()
        with env.begin() as txn:
            self.length = int(txn.get(b"length"))
        if not keep_open:
            env.close()

    def connect(self):
        return lmdb.open(self.path, subdir=False, readonly=True, lock=False, readahead=False, meminit=False, max_readers=1, map_size=1 << 40)

    def __len__(self):
        return self.length

    def __getitem__(self, idx):
        env = self.env if self.keep_open else self.connect()
        with env.begin() as txn:
            data = pickle.loads(txn.get(str(idx).encode()))
        if not self.keep_open:
            env.close()
        return torch.from_numpy(data["z"]), torch.from_numpy(data["pos"]), torch.tensor(data["energy"], dtype=torch.float32)


class SchNetLike(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(10, dim)
        self.filter = nn.Sequential(nn.Linear(1, dim), nn.Tanh(), nn.Linear(dim, dim))
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 1))

    def forward(self, z, pos):
        h = self.embed(z)
        dist = (pos[:, :, None] - pos[:, None]).square().sum(-1, keepdim=True)
        h = h + (self.filter(dist) * h[:, None]).sum(2)
        return self.out(h).sum((1, 2))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--fixed", action="store_true")
    a = p.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "molecules.lmdb")
        write_database(path, 4000)
        data = MoleculeLmdb(path, keep_open=a.fixed)
        loader = DataLoader(data, batch_size=a.batch_size, shuffle=True, drop_last=True)
        net = SchNetLike()
        opt = torch.optim.Adam(net.parameters(), lr=1e-3)
        step = 0
        while step < a.steps:
            for z, pos, energy in loader:
                loss = nn.functional.mse_loss(net(z, pos), energy)
                opt.zero_grad()
                loss.backward()
                opt.step()
                step += 1
                if step == 20:
                    t0 = time.time()
                if step % 100 == 0:
                    print(f"step {step} mse {loss.item():.3f}")
                if step == a.steps:
                    break
        dt = time.time() - t0
    n = (a.steps - 20) * a.batch_size
    print(json.dumps({"steps": a.steps, "samples": n, "seconds": dt, "samples_per_s": n / dt}))


if __name__ == "__main__":
    main()
