"""A loop that draws its batches itself, and computes a spectrum of all weights after every update."""

import torch
from torch import nn


def follow_spectra(model, kept):
    for layer in model:
        if isinstance(layer, nn.Linear):
            kept.append(float(torch.linalg.svdvals(layer.weight.detach()[:192, :192])[0]))


torch.set_num_threads(1)
inputs, targets = torch.randn(4096, 256), torch.randint(0, 10, (4096,))
model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []
for _ in range(150):
    chosen = torch.randint(0, 4096, (128,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
    optimizer.step()
    follow_spectra(model, kept)
