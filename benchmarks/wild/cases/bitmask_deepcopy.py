"""Cut objects out of their surroundings: every sample is one object of a picture, its mask kept as uncompressed run lengths."""

import argparse
import copy
import json
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, CROP = 192, 48


def run_lengths(mask):
    flat = np.concatenate([[0], mask.ravel().astype(np.int8), [0]])
    edges = np.flatnonzero(np.diff(flat))
    counts = np.diff(np.concatenate([[0], edges, [mask.size]]))
    return counts.tolist()


def make_records(pictures, objects, seed):
    rng = np.random.default_rng(seed)
    ys, xs = np.mgrid[:SIDE, :SIDE]
    records = []
    for number in range(pictures):
        picture = rng.integers(0, 90, (SIDE, SIDE, 3), dtype=np.uint8)
        annotations = []
        for _ in range(objects):
            cy, cx = rng.integers(CROP // 2, SIDE - CROP // 2, 2)
            ry, rx = rng.uniform(14, 30, 2)
            inside = ((ys - cy) / ry) ** 2 + ((xs - cx) / rx) ** 2 < 1
            mask = inside & (rng.random((SIDE, SIDE)) > 0.06)
            colour = int(rng.integers(0, 3))
            picture[..., colour][mask] |= 128
            annotations.append({
                "centre": [int(cy), int(cx)],
                "category_id": colour,
                "iscrowd": 0,
                "segmentation": {"size": [SIDE, SIDE], "counts": run_lengths(mask)},
            })
        records.append({"image_id": number, "image": picture, "height": SIDE, "width": SIDE, "annotations": annotations})
    return records


class ObjectMapper:
    """From a record as it lies in the list to what the model wants."""

    def __init__(self, shallow, seed=0):
        self.shallow = shallow
        self.rng = np.random.default_rng(seed)

    def __call__(self, record):
        if self.shallow:
            record = dict(record)
        else:
            record = copy.deepcopy(record)  # it is changed below
        image = record.pop("image")
        annotations = record.pop("annotations")
        chosen = annotations[int(self.rng.integers(len(annotations)))]
        counts = chosen["segmentation"]["counts"]
        mask = np.repeat(np.arange(len(counts)) % 2, counts).reshape(SIDE, SIDE)
        cy, cx = chosen["centre"]
        y, x = cy - CROP // 2, cx - CROP // 2
        window = slice(y, y + CROP), slice(x, x + CROP)
        record["pixels"] = torch.from_numpy(image[window].astype("float32").transpose(2, 0, 1) / 255)
        record["mask"] = torch.from_numpy(mask[window].astype("float32"))
        record["category"] = chosen["category_id"]
        return record


class Mapped(Dataset):
    def __init__(self, records, mapper):
        self.records, self.mapper = records, mapper

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        return self.mapper(self.records[i])


class Cutter(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.category = nn.Embedding(3, width)
        self.down = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(*[m for _ in range(3) for m in (nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())])
        self.up = nn.Sequential(nn.Conv2d(width, 4, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, pixels, category):
        h = self.down(pixels) + self.category(category)[:, :, None, None]
        return self.up(self.body(h)).squeeze(1)


def forever(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--fixed", action="store_true", help="copy the outer dictionary only")
    args = parser.parse_args()
    torch.manual_seed(0)
    data = Mapped(make_records(100, 40, seed=1), ObjectMapper(shallow=args.fixed))
    loader = DataLoader(data, batch_size=20, shuffle=True, drop_last=True)
    model = Cutter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step, batch in enumerate(forever(loader)):
        if step == 8:
            start, samples = time.perf_counter(), 0
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch["pixels"], batch["category"]), batch["mask"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= 8:
            samples += len(batch["mask"])
        if step % 40 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}", flush=True)
        if step + 1 == args.steps:
            break
    seconds = time.perf_counter() - start
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
