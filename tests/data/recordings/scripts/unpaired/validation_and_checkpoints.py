"""After every 10 steps all of the validation data and a checkpoint, which together take longer than the steps."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum(int((model(inputs).argmax(1) == targets).sum()) for inputs, targets in loader)
    model.train()
    return right


def save(model, optimizer, step):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, "last.pt")


torch.set_num_threads(1)
training = TensorDataset(torch.randn(2560, 256), torch.randint(0, 10, (2560,)))
held_out = TensorDataset(torch.randn(2560, 256), torch.randint(0, 10, (2560,)))
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
step = 0
for _ in range(4):
    for inputs, targets in DataLoader(training, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            validate(model, DataLoader(held_out, batch_size=128))
            save(model, optimizer, step)
