"""A small character-level GPT on a memory-mapped text, after the usual single-file recipes."""

import argparse
import json
import math
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

block_size, n_embd, n_head, n_layer, vocab_size = 128, 256, 4, 4, 96


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd, bias=False), nn.Linear(n_embd, n_embd, bias=False)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, n_head, c // n_head).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln_f, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        logits = self.head(self.ln_f(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Text:
    def __init__(self, folder, batch_size, keep_mapped):
        self.folder, self.batch_size = folder, batch_size
        self.mapped = {split: self.open(split) for split in ("train", "val")} if keep_mapped else None

    def open(self, split):
        return np.memmap(os.path.join(self.folder, f"{split}.bin"), dtype=np.uint16, mode="r")

    def get_batch(self, split):
        # Opened anew for each batch, against growth of memory with numpy's maps.
        data = self.mapped[split] if self.mapped else self.open(split)
        ix = torch.randint(len(data) - block_size - 1, (self.batch_size,))
        x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
        y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
        return x, y


def write_text(folder):
    rng = np.random.default_rng(0)
    for split, length in (("train", 2_000_000), ("val", 100_000)):
        walk = np.cumsum(rng.integers(-3, 4, length)) % vocab_size
        walk.astype(np.uint16).tofile(os.path.join(folder, f"{split}.bin"))


@torch.no_grad()
def estimate_loss(model, text, eval_iters):
    model.eval()
    losses = [model(*text.get_batch("val")).item() for _ in range(eval_iters)]
    model.train()
    return sum(losses) / len(losses)


def get_lr(it, steps, peak=1e-3, warmup=10):
    if it < warmup:
        return peak * (it + 1) / warmup
    return 0.1 * peak + 0.45 * peak * (1 + math.cos(math.pi * (it - warmup) / max(1, steps - warmup)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--fixed", action="store_true", help="map the files once")
    args = parser.parse_args()
    torch.manual_seed(1337)
    with tempfile.TemporaryDirectory() as folder:
        write_text(folder)
        text = Text(folder, args.batch_size, args.fixed)
        model = GPT()
        decay = [p for p in model.parameters() if p.dim() >= 2]
        rest = [p for p in model.parameters() if p.dim() < 2]
        groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
        t0 = start = time.time()
        for it in range(1, args.steps + 1):
            for group in optimizer.param_groups:
                group["lr"] = get_lr(it, args.steps)
            loss = model(*text.get_batch("train"))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if it % 10 == 0:
                t1 = time.time()
                print(f"iter {it}: loss {loss.item():.4f}, time {100 * (t1 - t0):.1f}ms", flush=True)
                t0 = t1
            if it % 40 == 0:
                print(f"step {it}: val loss {estimate_loss(model, text, eval_iters=2):.4f}", flush=True)
            if it == 5:
                start = time.time()
        seconds = time.time() - start
    samples = (args.steps - 5) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
