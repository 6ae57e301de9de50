"""Prompt-based classification: the answer is one of a few words at the place of [MASK]; run by accelerate."""

import argparse
import json
import time

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

ANSWERS = ["bad", "poor", "fair", "good", "great"]


def build_tokenizer(words):
    vocab = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[MASK]", *ANSWERS, "it", "was", *words])}
    tokenizer = Tokenizer(WordLevel(vocab, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return tokenizer


def reviews(count, words, seed):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        stars = int(rng.integers(0, 5))
        length = int(rng.integers(24, 44))
        # each opinion has words of its own, a tenth of the text
        ids = np.where(rng.random(length) < 0.1, stars * 40 + rng.integers(0, 40, length), rng.integers(0, len(words), length))
        out.append({"text": " ".join(words[i] for i in ids), "stars": stars})
    return out


class PromptCollator:
    def __init__(self, tokenizer, keep_vocab):
        self.tokenizer = tokenizer
        self.kept = tokenizer.get_vocab() if keep_vocab else None

    def id_of(self, word):
        if self.kept is not None:
            return self.kept[word]
        return self.tokenizer.get_vocab()[word]

    def encode(self, review):
        encoded = self.tokenizer.encode(review["text"] + " it was [MASK]")
        ids = torch.tensor(encoded.ids)
        return ids, len(ids) - 1, self.id_of(ANSWERS[review["stars"]])

    def __call__(self, batch):
        ids, places, answers = zip(*[self.encode(review) for review in batch])
        padded = pad_sequence(ids, batch_first=True, padding_value=self.id_of("[PAD]"))
        return {"ids": padded, "places": torch.tensor(places), "answers": torch.tensor(answers)}


class MaskedModel(nn.Module):
    def __init__(self, vocab, width=128, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, width, padding_idx=0), nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, places):
        h = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        h = self.encoder(h, src_key_padding_mask=ids == 0)
        at = self.norm(h[torch.arange(len(ids), device=ids.device), places])
        return at @ self.words.weight.T / at.shape[1] ** 0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", "--steps", dest="steps", type=int, default=130)
    parser.add_argument("--fixed", action="store_true", help="ask for the vocabulary once")
    args = parser.parse_args()
    set_seed(11)
    accelerator = Accelerator(cpu=True)
    words = [f"w{i:05d}" for i in range(12_000)]
    tokenizer = build_tokenizer(words)
    collator = PromptCollator(tokenizer, keep_vocab=args.fixed)
    loader = DataLoader(reviews(3200, words, 0), batch_size=16, shuffle=True, collate_fn=collator)
    model = MaskedModel(tokenizer.get_vocab_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=50)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    model.train()
    done = 0
    while done < args.steps:
        for batch in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(batch["ids"], batch["places"]), batch["answers"])
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            done += 1
            if done == 10:
                start = time.perf_counter()
            if done % 50 == 0:
                accelerator.print(f"{done}: {loss.item():.3f}")
            if done == args.steps:
                break
    seconds = time.perf_counter() - start
    samples = (args.steps - 10) * 16
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
