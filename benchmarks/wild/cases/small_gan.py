"""A DCGAN on synthetic textures: two optimizers in turn, samples kept now and then."""

import argparse
import json
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

nz, ngf, ndf = 64, 32, 32


def generator():
    return nn.Sequential(
        nn.ConvTranspose2d(nz, 4 * ngf, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * ngf), nn.ReLU(True),
        nn.ConvTranspose2d(4 * ngf, 2 * ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * ngf), nn.ReLU(True),
        nn.ConvTranspose2d(2 * ngf, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
        nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )


def discriminator():
    return nn.Sequential(
        nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True),
        nn.Conv2d(ndf, 2 * ndf, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * ndf), nn.LeakyReLU(0.2, True),
        nn.Conv2d(2 * ndf, 4 * ndf, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * ndf), nn.LeakyReLU(0.2, True),
        nn.Conv2d(4 * ndf, 1, 4, 1, 0, bias=False), nn.Flatten(0),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--niter", "--steps", dest="steps", type=int, default=200)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    opt = parser.parse_args()
    torch.manual_seed(999)
    bs = 32
    loader = DataLoader(TensorDataset(torch.rand(960, 3, 32, 32) * 2 - 1), batch_size=bs, shuffle=True)
    netG, netD, criterion = generator(), discriminator(), nn.BCEWithLogitsLoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    fixed_noise, kept = torch.randn(16, nz, 1, 1), []
    i = 0
    while i < opt.steps:
        for (real,) in loader:
            netD.zero_grad()
            errD = criterion(netD(real), torch.ones(len(real)))
            fake = netG(torch.randn(len(real), nz, 1, 1))
            errD = errD + criterion(netD(fake.detach()), torch.zeros(len(real)))
            errD.backward()
            optimizerD.step()
            netG.zero_grad()
            errG = criterion(netD(fake), torch.ones(len(real)))
            errG.backward()
            optimizerG.step()
            i += 1
            if i == 8:
                start = time.time()
            if i % 20 == 0:
                print(f"[{i}/{opt.steps}] Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f}")
            if i % 60 == 0:
                with torch.no_grad():
                    kept.append(netG(fixed_noise))
            if i == opt.steps:
                break
    seconds = time.time() - start
    n = (opt.steps - 8) * bs
    print(json.dumps({"steps": opt.steps, "samples": n, "seconds": seconds, "samples_per_s": n / seconds}))


if __name__ == "__main__":
    main()
