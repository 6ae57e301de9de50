"""Distil a wide image classifier into a narrow one."""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    """Coloured blobs on noise, ten classes."""

    def __init__(self, n=2048, side=32, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 10, (n,), generator=g)
        self.x = torch.randn(n, 3, side, side, generator=g) * 0.4
        for i, c in enumerate(self.y.tolist()):
            self.x[i, c % 3, 3 * (c // 2) : 3 * (c // 2) + 9, 2 * c : 2 * c + 9] += 1.5

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def convnet(width):
    layers, cin = [], 3
    for cout, stride in ((width, 1), (width, 2), (2 * width, 1), (2 * width, 2)):
        layers += [nn.Conv2d(cin, cout, 3, stride, 1), nn.GroupNorm(4, cout), nn.ReLU()]
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, 10))


def kd_loss(student_logits, teacher_logits, labels, alpha=0.7, temperature=4.0):
    soft = F.kl_div(
        F.log_softmax(student_logits / temperature, dim=1),
        F.softmax(teacher_logits / temperature, dim=1),
        reduction="batchmean",
    )
    return alpha * temperature**2 * soft + (1 - alpha) * F.cross_entropy(student_logits, labels)


def train_kd(student, teacher, loader, optimizer, params):
    student.train()
    teacher.eval()
    step, seen, start = 0, 0, time.time()
    while step < params.steps:
        for images, labels in loader:
            student_logits = student(images)
            if params.fixed:
                with torch.no_grad():
                    teacher_logits = teacher(images)
            else:
                teacher_logits = teacher(images)
            loss = kd_loss(student_logits, teacher_logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            seen += len(labels)
            if step == 5:
                start, seen = time.time(), 0
            if step % 25 == 0:
                acc = (student_logits.argmax(1) == labels).float().mean().item()
                print(f"- step {step:04d} loss {loss.item():.4f} batch accuracy {acc:.3f}", flush=True)
            if step == params.steps:
                break
    return seen, time.time() - start


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=220)
    p.add_argument("--batch_size", type=int, default=32)
    p.add_argument("--fixed", action="store_true")
    params = p.parse_args()
    torch.manual_seed(230)
    teacher, student = convnet(48), convnet(16)
    loader = DataLoader(Blobs(), batch_size=params.batch_size, shuffle=True, drop_last=True)
    sgd = torch.optim.SGD(student.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    seen, seconds = train_kd(student, teacher, loader, sgd, params)
    print(json.dumps({"steps": params.steps, "samples": seen, "seconds": seconds, "samples_per_s": seen / seconds}))
