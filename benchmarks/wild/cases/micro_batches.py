"""Sequence labelling with Accelerate: an effective batch of 32 by gradient accumulation."""

import argparse
import json
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self, vocab=400, dim=48, layers=4, tags=9):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.tags = nn.Linear(dim, tags)

    def forward(self, ids):
        return self.tags(self.encoder(self.embed(ids)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100, help="updates")
    parser.add_argument("--per_device_train_batch_size", type=int, default=1)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=32)
    parser.add_argument("--fixed", action="store_true", help="the same effective batch in one piece")
    args = parser.parse_args()
    if args.fixed:
        args.per_device_train_batch_size, args.gradient_accumulation_steps = 32, 1
        args.steps *= 4

    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.gradient_accumulation_steps)
    ids = torch.randint(0, 400, (32 * args.steps, 16))
    loader = DataLoader(TensorDataset(ids, ids % 9), batch_size=args.per_device_train_batch_size)
    model, optimizer = Tagger(), None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    updates, seen = 0, 0
    for tokens, tags in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(tokens).transpose(1, 2), tags)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        seen += len(tokens)
        if accelerator.sync_gradients:
            updates += 1
            if updates == 5:
                start, at = time.time(), seen
            if updates % 20 == 0:
                accelerator.print(f"update {updates} loss {loss.item():.4f}")
    seconds = time.time() - start
    samples = seen - at
    print(json.dumps({"steps": updates, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
