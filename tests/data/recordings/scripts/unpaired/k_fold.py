"""Three folds in turn, each with a model, an optimizer and loaders of its own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.set_num_threads(1)
data = TensorDataset(torch.randn(1920, 256), torch.randint(0, 10, (1920,)))
for fold in range(3):
    held_out = range(fold * 640, (fold + 1) * 640)
    kept = [index for index in range(len(data)) if index not in held_out]
    model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        for inputs, targets in DataLoader(Subset(data, kept), batch_size=64, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    validation = DataLoader(Subset(data, held_out), batch_size=64)
    with torch.no_grad():
        print(f"fold {fold}:", sum(int((model(inputs).argmax(1) == targets).sum()) for inputs, targets in validation))
