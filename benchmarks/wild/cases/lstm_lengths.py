"""Speech-like sequences of very different length, packed: steps take as long as their longest sequence."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class Utterances(Dataset):
    def __init__(self, n=1200):
        g = torch.Generator().manual_seed(0)
        self.lengths = (20 + 60 * torch.rand(n, generator=g) ** 3).long().tolist()
        self.pool = torch.randn(400, 40, generator=g)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        first = i % 300
        return self.pool[first : first + self.lengths[i]], i % 30


def collate(rows):
    rows.sort(key=lambda row: -len(row[0]))
    lengths = torch.tensor([len(x) for x, _ in rows])
    return pad_sequence([x for x, _ in rows], batch_first=True), lengths, torch.tensor([y for _, y in rows])


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(40, 192, num_layers=2, batch_first=True)
        self.head = nn.Linear(192, 30)

    def forward(self, x, lengths):
        _, (h, _) = self.lstm(pack_padded_sequence(x, lengths, batch_first=True))
        return self.head(h[-1])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = ap.parse_args()
    torch.manual_seed(0)
    bs = 24
    loader = DataLoader(Utterances(), batch_size=bs, shuffle=True, collate_fn=collate, drop_last=True)
    model = Recognizer()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step, losses = 0, []
    while step < args.steps:
        for x, lengths, y in loader:
            loss = nn.functional.cross_entropy(model(x, lengths), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            losses.append(loss.item())
            step += 1
            if step == 10:
                start = time.time()
            if step % 25 == 0:
                print(f"{step:5d} | loss {sum(losses[-25:]) / 25:.4f}")
            if step == args.steps:
                break
    seconds = time.time() - start
    samples = (args.steps - 10) * bs
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
