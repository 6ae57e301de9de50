"""Problems of the training's own work that `train.py` plants: an operation written as a Python loop, and a log line for everything."""

import logging
from pathlib import Path

import torch
from torch import nn

EDGE_WEIGHT = 3.0


def edge_weights(masks: torch.Tensor) -> torch.Tensor:
    """Weights [N, H, W]: a pixel that differs from its right or lower neighbour counts three times as much."""
    edges = torch.zeros(masks.shape, dtype=torch.bool)
    edges[:, :, :-1] |= masks[:, :, :-1] != masks[:, :, 1:]
    edges[:, :-1, :] |= masks[:, :-1, :] != masks[:, 1:, :]
    return 1 + (EDGE_WEIGHT - 1) * edges.float()


def edge_weights_pixel_by_pixel(masks: torch.Tensor) -> torch.Tensor:
    """The same as `edge_weights`, as it is often written first."""
    weights = []
    for mask in masks.tolist():
        last = len(mask) - 1
        rows = []
        for y, row in enumerate(mask):
            below = mask[min(y + 1, last)]
            line = []
            for x, label in enumerate(row):
                right = row[min(x + 1, last)]
                line.append(EDGE_WEIGHT if label != right or label != below[x] else 1.0)
            rows.append(line)
        weights.append(rows)
    return torch.tensor(weights)


def weighted_loss(logits: torch.Tensor, masks: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    losses = nn.functional.cross_entropy(logits, masks, reduction="none")
    return (losses * weights).sum() / weights.sum()


def open_log(folder: Path) -> logging.Logger:
    logger = logging.getLogger("case_study")
    handler = logging.FileHandler(folder / "train.log")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    return logger


def log_every_channel(logger: logging.Logger, step: int, model: nn.Module) -> None:
    """A line for every output channel of every layer."""
    for name, parameter in model.named_parameters():
        for channel, norm in enumerate(parameter.detach().flatten(1).norm(dim=1).tolist() if parameter.dim() > 1 else ()):
            logger.debug("step %d %s[%d] norm %.4f", step, name, channel, norm)
