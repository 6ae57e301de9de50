"""Train a small classifier on photographs in tar shards."""

import argparse
import io
import json
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import webdataset as wds
from PIL import Image

SIZE = 64


def photograph(rng, label):
    coarse = rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)
    coarse[..., label % 3] //= 2
    return Image.fromarray(coarse).resize((1024, 768), Image.BICUBIC)


def write_shards(folder, shards, per_shard, presized):
    rng = np.random.default_rng(0)
    for s in range(shards):
        with wds.TarWriter(os.path.join(folder, f"train-{s:04d}.tar")) as sink:
            for i in range(per_shard):
                label = int(rng.integers(0, 10))
                image = photograph(rng, label)
                if presized:
                    image = image.resize((SIZE, SIZE), Image.BILINEAR)
                buf = io.BytesIO()
                image.save(buf, "JPEG", quality=90)
                sink.write({"__key__": f"{s:04d}{i:05d}", "jpg": buf.getvalue(), "cls": str(label)})


def preprocess(sample):
    image, label = sample
    image = image.resize((SIZE, SIZE), Image.BILINEAR)
    return torch.from_numpy(np.asarray(image, dtype=np.float32) / 255.0).permute(2, 0, 1), label


def build_model():
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))

    return nn.Sequential(block(3, 16), block(16, 32), block(32, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--fixed", action="store_true")
    opt = ap.parse_args()
    torch.manual_seed(0)
    bs = 16
    with tempfile.TemporaryDirectory() as folder:
        write_shards(folder, shards=4, per_shard=32, presized=opt.fixed)
        urls = os.path.join(folder, "train-{0000..0003}.tar")
        dataset = wds.WebDataset(urls, shardshuffle=4, empty_check=False).shuffle(100).decode("pil").to_tuple("jpg", "cls").map(preprocess).repeat()
        loader = torch.utils.data.DataLoader(dataset.batched(bs, partial=False), batch_size=None, num_workers=1)
        model = build_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for step, (x, y) in enumerate(loader):
            if step == 10:
                t0 = time.time()
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 25 == 0:
                print(f"[{step}/{opt.steps}] loss={loss.item():.3f}", flush=True)
            if step + 1 >= opt.steps:
                break
        dt = time.time() - t0
    n = (opt.steps - 10) * bs
    print(json.dumps({"steps": opt.steps, "samples": n, "seconds": dt, "samples_per_s": n / dt}))


if __name__ == "__main__":
    main()
