"""Convolutional classifier with all the usual trimmings: tqdm, EMA, clipping, a cosine schedule."""

import argparse
import json
import sys
import time

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = parser.parse_args()
    torch.manual_seed(0)
    bs = 32
    data = TensorDataset(torch.rand(1600, 1, 32, 32), torch.randint(0, 10, (1600,)))
    loader = DataLoader(data, batch_size=bs, shuffle=True)
    model = nn.Sequential(block(1, 32), block(32, 64), nn.Flatten(), nn.Linear(64 * 64, 10))
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    step, start = 0, None
    with tqdm(total=args.steps, file=sys.stdout, ascii=True) as bar:
        while step < args.steps:
            for x, y in loader:
                loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                ema.update_parameters(model)
                step += 1
                bar.update()
                bar.set_postfix(loss=f"{loss.item():.3f}", lr=f"{schedule.get_last_lr()[0]:.1e}")
                if step == 10:
                    start = time.perf_counter()
                if step == args.steps:
                    break
    seconds = time.perf_counter() - start
    samples = (args.steps - 10) * bs
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
