"""Pre-training a text generator: what the world looks like after an action. Validated by loss and by F1 of freely generated text."""

import argparse
import collections
import json
import time

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=160)
parser.add_argument("--report-every", type=int, default=20)
parser.add_argument("--fixed", action="store_true", help="validate by the loss alone")

VOCAB, SOURCE, TARGET, WIDTH, BATCH = 400, 20, 24, 80, 24
BOS = 1


def make_episodes(n, seed):
    """The observation repeats the state, with the words that the action names moved on by one."""
    g = torch.Generator().manual_seed(seed)
    source = torch.randint(4, VOCAB, (n, SOURCE), generator=g)
    target = torch.cat([source, source[:, : TARGET - SOURCE] % (VOCAB - 4) + 4], 1)
    return source, torch.cat([torch.full((n, 1), BOS), target], 1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, WIDTH), nn.Parameter(torch.randn(64, WIDTH) * 0.02)
        shape = dict(d_model=WIDTH, nhead=4, dim_feedforward=4 * WIDTH, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**shape), 2, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), 2)
        self.out = nn.Linear(WIDTH, VOCAB)

    def embed(self, ids):
        return self.words(ids) + self.places[: ids.shape[1]]

    def encode(self, source):
        return self.encoder(self.embed(source))

    def decode(self, memory, target):
        n = target.shape[1]
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        return self.out(self.decoder(self.embed(target), memory, tgt_mask=later))

    def forward(self, source, target):
        return self.decode(self.encode(source), target)


def nll(model, source, target):
    logits = model(source, target[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())


def free_run(model, source):
    memory = model.encode(source)
    text = torch.full((len(source), 1), BOS)
    for _ in range(TARGET):
        text = torch.cat([text, model.decode(memory, text)[:, -1].argmax(-1, keepdim=True)], 1)
    return text[:, 1:]


def f1(guess, truth):
    common = sum((collections.Counter(guess) & collections.Counter(truth)).values())
    return 2 * common / (len(guess) + len(truth))


@torch.no_grad()
def validate(model, data, with_text):
    model.eval()
    losses, scores = [], []
    for source, target in zip(*[part.split(BATCH) for part in data]):
        losses.append(nll(model, source, target))
        if with_text:
            for guess, truth in zip(free_run(model, source).tolist(), target[:, 1:].tolist()):
                scores.append(f1(guess, truth))
    model.train()
    return torch.stack(losses).mean().item(), sum(scores) / max(len(scores), 1)


args = parser.parse_args()
torch.manual_seed(0)
train, held_out = make_episodes(BATCH * 60, 1), make_episodes(BATCH * 10, 2)
model = Generator()
optimizer = torch.optim.Adam(model.parameters(), lr=7e-4)
for episode in range(1, args.steps + 1):
    at = episode * BATCH % len(train[0])
    loss = nll(model, train[0][at : at + BATCH], train[1][at : at + BATCH])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    if episode % args.report_every == 0:
        valid_loss, valid_f1 = validate(model, held_out, with_text=not args.fixed)
        print(f"Episode: {episode:4d} | loss {loss.item():.3f} | valid loss {valid_loss:.3f} | valid f1 {valid_f1:.3f}", flush=True)
    if episode == 8:
        begin = time.perf_counter()
seconds = time.perf_counter() - begin
samples = (args.steps - 8) * BATCH
print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
