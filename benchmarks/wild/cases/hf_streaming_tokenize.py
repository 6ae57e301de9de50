"""Masked-word model on a corpus that is tokenized while it streams."""

import argparse
import json
import random
import re
import time

import torch
from datasets import Dataset
from torch import nn
from torch.utils.data import DataLoader

WORD = re.compile(r"\w+|[^\w\s]")
LENGTH = 64


class WordPiece:
    """Greedy longest match first, as BERT's, in plain Python."""

    def __init__(self, vocabulary):
        self.ids = {piece: i + 2 for i, piece in enumerate(vocabulary)}

    def split(self, word):
        start, pieces = 0, []
        while start < len(word):
            end = len(word)
            while end > start:
                piece = word[start:end] if start == 0 else "##" + word[start:end]
                if piece in self.ids:
                    break
                end -= 1
            if end == start:
                return [1]
            pieces.append(self.ids[piece])
            start = end
        return pieces

    def __call__(self, text):
        ids = [i for word in WORD.findall(text.lower()) for i in self.split(word)]
        return (ids + [0] * LENGTH)[:LENGTH]


def make_corpus(rows):
    rng = random.Random(0)
    letters = "etaoinshrdlu"
    vocabulary = list(letters) + ["##" + c for c in letters]
    vocabulary += ["".join(rng.choices(letters, k=2)) for _ in range(60)] + ["##" + "".join(rng.choices(letters, k=2)) for _ in range(60)]
    texts = [" ".join("".join(rng.choices(letters, k=rng.randint(4, 14))) for _ in range(90)) for _ in range(rows)]
    return sorted(set(vocabulary)), texts


class Encoder(nn.Module):
    def __init__(self, vocab, dim=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False
        )
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.out(self.layers(self.embed(ids)))


def main(cfg):
    torch.manual_seed(0)
    vocabulary, texts = make_corpus(cfg.rows)
    tokenizer = WordPiece(vocabulary)

    def encode(row):
        return {"input_ids": tokenizer(row["text"])}

    corpus = Dataset.from_dict({"text": texts})
    if cfg.fixed:
        corpus = corpus.map(encode, remove_columns=["text"], load_from_cache_file=False, keep_in_memory=True)
        stream = corpus.to_iterable_dataset()
    else:
        stream = corpus.to_iterable_dataset().map(encode, remove_columns=["text"])
    stream = stream.shuffle(seed=0, buffer_size=200).with_format("torch")

    model = Encoder(len(vocabulary) + 2)
    optim = torch.optim.AdamW(model.parameters(), 5e-4)
    step, t0 = 0, None
    while step < cfg.steps:
        for batch in DataLoader(stream, batch_size=cfg.batch):
            ids = batch["input_ids"]
            if len(ids) < cfg.batch:
                continue
            masked = ids.masked_fill((torch.rand(ids.shape) < 0.15) & (ids > 0), 1)
            loss = nn.functional.cross_entropy(model(masked).transpose(1, 2), ids, ignore_index=0)
            optim.zero_grad()
            loss.backward()
            optim.step()
            step += 1
            if step == 10:
                t0 = time.time()
            if step % 40 == 0:
                print(f"step={step} loss={loss.item():.4f}")
            if step >= cfg.steps:
                break
    took = time.time() - t0
    seen = (cfg.steps - 10) * cfg.batch
    print(json.dumps({"steps": step, "samples": seen, "seconds": took, "samples_per_s": seen / took}))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--rows", type=int, default=1600)
    p.add_argument("--fixed", action="store_true")
    main(p.parse_args())
