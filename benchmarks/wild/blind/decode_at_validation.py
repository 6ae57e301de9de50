"""Sequence to sequence on spelled-out numbers, validated by greedy decoding."""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD, BOS, EOS, BASE = 0, 1, 2, 3
VOCAB, LENGTH = 40, 24


def make_pairs(n, seed):
    """The target is the source in reverse order."""
    g = torch.Generator().manual_seed(seed)
    source = torch.randint(BASE, VOCAB, (n, LENGTH), generator=g)
    bos, eos = torch.full((n, 1), BOS), torch.full((n, 1), EOS)
    return TensorDataset(source, torch.cat([bos, source.flip(1), eos], dim=1))


class Seq2Seq(nn.Module):
    def __init__(self, dim=96, hidden=128):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.encoder = nn.GRU(dim, hidden, batch_first=True)
        self.decoder = nn.GRU(dim, hidden, batch_first=True)
        self.attend = nn.Linear(hidden, hidden, bias=False)
        self.out = nn.Linear(2 * hidden, VOCAB)

    def encode(self, source):
        return self.encoder(self.embed(source))

    def decode(self, tokens, memory, state):
        hidden, state = self.decoder(self.embed(tokens), state)
        weights = torch.softmax(self.attend(hidden) @ memory.transpose(1, 2), dim=-1)
        return self.out(torch.cat([hidden, weights @ memory], dim=-1)), state

    def forward(self, source, target_in):
        memory, state = self.encode(source)
        return self.decode(target_in, memory, state)[0]

    @torch.no_grad()
    def greedy(self, source):
        memory, state = self.encode(source)
        token = torch.full((len(source), 1), BOS)
        produced = []
        for _ in range(LENGTH + 1):
            logits, state = self.decode(token, memory, state)
            token = logits[:, -1:].argmax(-1)
            produced.append(token)
        return torch.cat(produced, dim=1)


def token_loss(model, source, target):
    logits = model(source, target[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


def word_accuracy(model, loader):
    right, total = 0, 0
    for source, target in loader:
        for guess, truth in zip(model.greedy(source).tolist(), target[:, 1:].tolist(), strict=True):
            right += sum(a == b for a, b in zip(guess, truth, strict=True))
            total += len(truth)
    return right / total


@torch.no_grad()
def validation_loss(model, loader):
    losses = [token_loss(model, source, target).item() for source, target in loader]
    return sum(losses) / len(losses)


def validate(model, loader, decode):
    model.eval()
    figure = word_accuracy(model, loader) if decode else validation_loss(model, loader)
    model.train()
    return figure


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=160)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--validate-every", type=int, default=20)
    ap.add_argument("--fixed", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    train_loader = DataLoader(make_pairs(6400, 0), batch_size=args.batch_size, shuffle=True)
    valid_loader = DataLoader(make_pairs(300, 1), batch_size=64 if args.fixed else 1)
    model = Seq2Seq()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    step, start = 0, time.perf_counter()
    while step < args.steps:
        for source, target in train_loader:
            optimizer.zero_grad()
            loss = token_loss(model, source, target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % args.validate_every == 0:
                figure = validate(model, valid_loader, decode=not args.fixed)
                print(f"step {step} train loss {loss.item():.3f} validation {figure:.3f}", flush=True)
            if step == 10:
                start = time.perf_counter()
            if step == args.steps:
                break
    seconds = time.perf_counter() - start
    samples = (args.steps - 10) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
