"""Planted problems of the input: a slow server, preprocessing that is too much for the cores, and samples in many small files."""

import argparse
import http.client
import http.server
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from data import INPUT_SIZE, ShapesDataset

CHUNK_BYTES = 4096
THOROUGH, HALF = 16, 5  # with HALF, a sample takes half of the time that it takes with THOROUGH
TILE = 2  # pixels; a sample of 56 x 56 is kept in 784 tiles
TILED_PICTURES = 64  # one after the other stands for the other pictures too: files are slow to make


class ServedDataset(ShapesDataset):
    """The same files, asked for over HTTP: one connection per worker, kept open."""

    def __init__(self, folder: Path, augment, port: int) -> None:
        super().__init__(folder, augment)
        self.port = port
        self.connection = None
        self.owner = 0

    def read_bytes(self, path: Path) -> bytes:
        if self.connection is None or self.owner != os.getpid():
            self.connection, self.owner = http.client.HTTPConnection("127.0.0.1", self.port), os.getpid()
        self.connection.request("GET", f"/{path.name}")
        return self.connection.getresponse().read()


class ImageServer:
    """A server of its own process, which sends no more than so many bytes per second to all of its clients together (0: no limit)."""

    def __init__(self, folder: Path, bytes_per_s: int) -> None:
        words = [sys.executable, __file__, str(folder), str(bytes_per_s)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Budget:
    """Who wants to send waits until the line is free."""

    def __init__(self, bytes_per_s: int) -> None:
        self.bytes_per_s, self.free_at, self.lock = bytes_per_s, 0.0, threading.Lock()

    def spend(self, size: int) -> None:
        with self.lock:
            self.free_at = max(self.free_at, time.monotonic()) + size / self.bytes_per_s
            wait_s = self.free_at - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)


def serve(folder: Path, bytes_per_s: int) -> None:
    budget = Budget(bytes_per_s) if bytes_per_s else None
    files = {path.name: path.read_bytes() for path in folder.iterdir()}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            data = files[self.path[1:]]
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            for start in range(0, len(data), CHUNK_BYTES if budget else len(data)):
                chunk = data[start : start + CHUNK_BYTES] if budget else data
                if budget:
                    budget.spend(len(chunk))
                self.wfile.write(chunk)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


class OverloadedDataset(ShapesDataset):
    """The same pictures with more done to each than the cores can do in time, however many they are; no function of it is the slow one."""

    def __init__(self, folder: Path, augment, cores: int, thoroughness: int) -> None:
        super().__init__(folder, augment)
        self.rounds, self.thoroughness = max(cores // 2, 1), thoroughness

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        pixels, labels = super().__getitem__(index)
        for _ in range(self.rounds):
            pixels = add_noise(pixels, self.thoroughness)
            pixels = blur(pixels, self.thoroughness)
            pixels = shift_colors(pixels, self.thoroughness)
            pixels = distort(pixels, self.thoroughness)
        return pixels, labels


def add_noise(pixels: np.ndarray, thoroughness: int) -> np.ndarray:
    generator = np.random.default_rng(int(torch.randint(2**31, ())))
    return pixels + 0.02 * generator.standard_normal((thoroughness, *pixels.shape), dtype=np.float32).mean(axis=0)


def blur(pixels: np.ndarray, thoroughness: int) -> np.ndarray:
    edge = 2 * thoroughness
    spectrum = np.fft.rfft2(np.pad(pixels, ((0, 0), (edge, edge), (edge, edge)), mode="edge"))
    frequencies = np.fft.fftfreq(spectrum.shape[1])[:, None] ** 2 + np.fft.rfftfreq(spectrum.shape[1])[None, :] ** 2
    strength = 4 * float(torch.rand(()))
    return np.fft.irfft2(spectrum * np.exp(-strength * frequencies))[:, edge:-edge, edge:-edge].astype(np.float32)


def shift_colors(pixels: np.ndarray, thoroughness: int) -> np.ndarray:
    angle = 0.2 * float(torch.rand(()))
    for _ in range(thoroughness):
        pixels = np.clip(np.sin(angle) * pixels[[1, 2, 0]] + np.cos(angle) * np.power(np.abs(pixels), 0.99), 0, 1)
    return pixels


def distort(pixels: np.ndarray, thoroughness: int) -> np.ndarray:
    y, x = np.mgrid[0:INPUT_SIZE, 0:INPUT_SIZE].astype(np.float32)
    phase = 6.28 * float(torch.rand(()))
    for _ in range(thoroughness):
        rows = np.clip(y + np.sin(x / 9 + phase), 0, INPUT_SIZE - 1).astype(np.int64)
        columns = np.clip(x + np.cos(y / 7 + phase), 0, INPUT_SIZE - 1).astype(np.int64)
        pixels = pixels[:, rows, columns]
    return np.ascontiguousarray(pixels, dtype=np.float32)


class TiledDataset(ShapesDataset):
    """The same pictures at their final size, kept in one file per tile, or all tiles of a sample in one file."""

    def __init__(self, folder: Path, augment, tiles: Path, *, one_file: bool) -> None:
        super().__init__(folder, augment)
        self.tiles, self.one_file = tiles, one_file

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        read = read_whole if self.one_file else read_tiles
        picture = read(self.tiles / self.images[index % TILED_PICTURES].stem)
        pixels, labels = picture[:3].astype(np.float32) / 255, picture[3].astype(np.int64)
        pixels, labels = self.augment(pixels, labels)
        return np.ascontiguousarray(pixels), np.ascontiguousarray(labels)


def read_whole(folder: Path) -> np.ndarray:
    return np.frombuffer((folder / "whole").read_bytes(), dtype=np.uint8).reshape(4, INPUT_SIZE, INPUT_SIZE)


def read_tiles(folder: Path) -> np.ndarray:
    picture = np.empty((4, INPUT_SIZE, INPUT_SIZE), dtype=np.uint8)
    for top in range(0, INPUT_SIZE, TILE):
        for left in range(0, INPUT_SIZE, TILE):
            tile = np.frombuffer((folder / f"{top}-{left}").read_bytes(), dtype=np.uint8)
            picture[:, top : top + TILE, left : left + TILE] = tile.reshape(4, TILE, TILE)
    return picture


def make_tiles(folder: Path) -> Path:
    """Return the folder with the tiles of all pictures in `folder`, made on the first call."""
    done = folder.with_name(f"{folder.name}-tiles-{TILE}")
    if done.is_dir():
        return done
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    for path in sorted(folder.glob("*.jpg"))[:TILED_PICTURES]:
        write_tiles(picture_of(path), unfinished / path.stem)
    try:
        unfinished.rename(done)
    except OSError:  # another run was faster
        shutil.rmtree(unfinished)
    return done


def picture_of(path: Path) -> np.ndarray:
    """Three channels and the mask, uint8, in the size that the model takes."""
    image = Image.open(io.BytesIO(path.read_bytes())).resize((INPUT_SIZE, INPUT_SIZE), Image.Resampling.BILINEAR)
    mask = Image.open(path.with_suffix(".png")).resize(image.size, Image.Resampling.NEAREST)
    return np.concatenate((np.asarray(image).transpose(2, 0, 1), np.asarray(mask)[None]))


def write_tiles(picture: np.ndarray, folder: Path) -> None:
    folder.mkdir()
    (folder / "whole").write_bytes(picture.tobytes())
    for top in range(0, INPUT_SIZE, TILE):
        for left in range(0, INPUT_SIZE, TILE):
            (folder / f"{top}-{left}").write_bytes(picture[:, top : top + TILE, left : left + TILE].tobytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve the files of a folder, as the case study's network input does.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("bytes_per_s", type=int)
    arguments = parser.parse_args()
    serve(arguments.folder, arguments.bytes_per_s)
