"""A character-level GPT that reads its batches from a memory-mapped token file."""

import argparse
import json
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

block_size, batch_size, vocab = 96, 16, 96
eval_interval, eval_iters = 80, 4


class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))
        self.n_head = n_head

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.n_head, -1).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, n_layer=2, n_embd=128, n_head=4):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.Sequential(*[Block(n_embd, n_head) for _ in range(n_layer)])
        self.ln_f, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        logits = self.lm_head(self.ln_f(self.h(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def get_batch(folder, split):
    data = np.memmap(os.path.join(folder, f"{split}.bin"), dtype=np.uint16, mode="r")
    ix = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
    return x, y


@torch.no_grad()
def estimate_loss(model, folder):
    model.eval()
    losses = [model(*get_batch(folder, "val")).item() for _ in range(eval_iters)]
    model.train()
    return sum(losses) / len(losses)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=250)
    ap.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = ap.parse_args()
    torch.manual_seed(1337)
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        for split, n in (("train", 2_000_000), ("val", 100_000)):
            rng.integers(0, vocab, n).astype(np.uint16).tofile(os.path.join(folder, f"{split}.bin"))
        model = GPT()
        optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95))
        for iter_num in range(args.steps):
            if iter_num == 8:
                t0 = time.time()
            if iter_num and iter_num % eval_interval == 0:
                print(f"step {iter_num}: val loss {estimate_loss(model, folder):.4f}")
            loss = model(*get_batch(folder, "train"))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if iter_num % 10 == 0:
                print(f"iter {iter_num}: loss {loss.item():.4f}")
        dt = time.time() - t0
    n = (args.steps - 8) * batch_size
    print(json.dumps({"steps": args.steps, "samples": n, "seconds": dt, "samples_per_s": n / dt}))


if __name__ == "__main__":
    main()
