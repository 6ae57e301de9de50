"""A small training that is slower than it need be: what `slowstep demo` records. Mend it, and see what slowstep says then."""

import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

# Some minutes, as an experiment (slowstep prove) needs them; Ctrl-C ends it earlier.
STEPS, BATCH_SIZE = 30_000, 16
SIZE, CLASSES = 96, 4


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Compressed pictures in memory, each decoded and augmented when it is asked for."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(CLASSES, (count,), generator=generator).tolist()
        noise = torch.randint(32, (count, 3, SIZE, SIZE), generator=generator, dtype=torch.uint8)
        shaded = noise + 48 * torch.tensor(self.labels, dtype=torch.uint8).view(-1, 1, 1, 1)
        self.files = [zlib.compress(bytes(picture.flatten().tolist())) for picture in shaded]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = bytearray(zlib.decompress(self.files[index]))
        picture = torch.frombuffer(pixels, dtype=torch.uint8).view(3, SIZE, SIZE).float() / 255
        return augment(picture), self.labels[index]


def augment(picture: torch.Tensor) -> torch.Tensor:
    """Turn, brighten and blur a picture at random."""
    picture = torch.rot90(picture, int(torch.randint(4, ())), (1, 2)) * (0.8 + 0.4 * torch.rand(()))
    kernel = torch.rand(3, 1, 5, 5)
    return nn.functional.conv2d(picture[None], kernel / kernel.sum((2, 3), keepdim=True), padding=2, groups=3)[0]


def main() -> None:
    """Train on one thread, so that another core is free."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Pictures(count=BATCH_SIZE * 30), batch_size=BATCH_SIZE, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, CLASSES),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses: list[float] = []
    try:
        while len(losses) < STEPS:
            for pictures, labels in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(pictures), labels)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    except KeyboardInterrupt:
        print("ended by Ctrl-C:", end=" ")
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f} in {len(losses)} steps")


if __name__ == "__main__":
    main()
