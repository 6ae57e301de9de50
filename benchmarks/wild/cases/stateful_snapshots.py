"""Next-token pretraining on a packed token stream that can be resumed in the middle of an epoch."""

import argparse
import json
import random
import time

import torch
import torch.nn as nn
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

VOCAB, SEQ = 512, 64


class ShuffledTokens(IterableDataset):
    """Documents from a stream, mixed by a shuffle buffer that is part of the checkpoint."""

    def __init__(self, documents, buffer_size=6000):
        self.documents, self.buffer_size = documents, buffer_size
        self.position, self.buffer = 0, []
        self.rng = random.Random(0)

    def read_document(self):
        self.position += 1
        g = torch.Generator().manual_seed(self.position)
        return torch.randint(0, VOCAB, (SEQ + 1,), generator=g).tolist()

    def __iter__(self):
        while self.position < self.documents:
            while len(self.buffer) < self.buffer_size:
                self.buffer.append(self.read_document())
            slot = self.rng.randrange(self.buffer_size)
            tokens, self.buffer[slot] = self.buffer[slot], self.read_document()
            yield torch.tensor(tokens)

    def state_dict(self):
        return {"position": self.position, "buffer": [list(tokens) for tokens in self.buffer], "rng": self.rng.getstate()}

    def load_state_dict(self, state):
        self.position, self.buffer = state["position"], state["buffer"]
        self.rng.setstate(state["rng"])


class TinyGPT(nn.Module):
    def __init__(self, d=96, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, d), nn.Embedding(SEQ, d)
        layer = nn.TransformerEncoderLayer(d, 4, 4 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(d, VOCAB)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
        h = self.tok(x) + self.pos(torch.arange(x.size(1)))
        return self.head(self.blocks(h, mask=mask, is_causal=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--fixed", action="store_true", help="snapshot as often as checkpoints are written")
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = StatefulDataLoader(
        ShuffledTokens(documents=args.batch_size * (args.steps + 50) + 6000),
        batch_size=args.batch_size,
        num_workers=1,
        snapshot_every_n_steps=500 if args.fixed else 1,
    )
    model = TinyGPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step, batch in enumerate(loader):
        if step == 10:
            began = time.perf_counter()
        logits = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")
        if step + 1 == args.steps:
            break
    seconds = time.perf_counter() - began
    samples = (args.steps - 10) * args.batch_size
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
