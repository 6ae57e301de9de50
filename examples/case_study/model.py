"""A small encoder-decoder that gives a class to every pixel."""

from itertools import pairwise

import torch
from torch import nn


def conv(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class SegmentationNet(nn.Module):
    """Works at half the size of the picture: each level halves it on the way down, and is joined with what was seen there on the way up."""

    def __init__(self, classes: int, widths: tuple[int, ...] = (12, 24, 32, 64, 128)) -> None:
        super().__init__()
        self.stem = conv(3, widths[0], stride=2)
        self.down = nn.ModuleList(nn.Sequential(conv(a, b, stride=2), conv(b, b)) for a, b in pairwise(widths))
        self.bottom = nn.Sequential(*[conv(widths[-1], widths[-1]) for _ in range(2)])
        self.up = nn.ModuleList(conv(a + b, a) for a, b in pairwise(widths))
        self.head = nn.Conv2d(widths[0], classes, kernel_size=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = [self.stem(images)]
        for down in self.down:
            seen.append(down(seen[-1]))
        features = self.bottom(seen.pop())
        for up in reversed(self.up):
            finer = seen.pop()
            features = nn.functional.interpolate(features, size=finer.shape[-2:])
            features = up(torch.cat([finer, features], dim=1))
        return nn.functional.interpolate(self.head(features), scale_factor=2, mode="bilinear")
