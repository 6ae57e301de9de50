"""Pictures of discs and squares in compressed TFRecord files, and the tf.data pipelines that read them."""

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

RECORDS, FILES = 768, 4
SIZE = 96
CLASSES = 3  # background, disc, square
COMPRESSION = "GZIP"
LINE_BYTES_PER_S = 4e6
FEATURES = {"image": tf.io.FixedLenFeature([], tf.string), "mask": tf.io.FixedLenFeature([], tf.string)}


def make_files(folder: Path) -> list[str]:
    """Return the files with the pictures, made on the first call; runs started together do not disturb each other."""
    done = folder / f"shapes-{SIZE}-{RECORDS}"
    if not done.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder, prefix="unfinished-"))
        rng = np.random.default_rng(0)
        for index in range(FILES):
            write_file(unfinished / f"{index}.tfrecord", rng)
        try:
            unfinished.rename(done)
        except OSError:  # another run was faster
            shutil.rmtree(unfinished)
    return sorted(str(path) for path in done.glob("*.tfrecord"))


def write_file(path: Path, rng: np.random.Generator) -> None:
    with tf.io.TFRecordWriter(str(path), COMPRESSION) as writer:
        for _ in range(RECORDS // FILES):
            image, mask = draw_pair(rng)
            texts = {"image": tf.io.encode_jpeg(image, quality=90), "mask": tf.io.encode_png(mask[..., None])}
            feature = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.numpy()])) for name, text in texts.items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def draw_pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A picture, uint8 [96, 96, 3], and the class of each of its pixels, uint8 [96, 96]."""
    image = rng.integers(0, 80, (SIZE, SIZE, 3)).astype(np.uint8)
    mask = np.zeros((SIZE, SIZE), np.uint8)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for _ in range(rng.integers(2, 6)):
        row, column, radius = rng.integers(10, SIZE - 10), rng.integers(10, SIZE - 10), rng.integers(6, 16)
        shape = int(rng.integers(1, CLASSES))
        far = (rows - row) ** 2 + (columns - column) ** 2 if shape == 1 else np.maximum(abs(rows - row), abs(columns - column)) ** 2
        image[far < radius**2] = rng.integers(80, 256, 3)
        mask[far < radius**2] = shape
    return image, mask


def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """(image, mask) of a record: float32 [96, 96, 3], int32 [96, 96], flipped at random."""
    texts = tf.io.parse_single_example(record, FEATURES)
    image = tf.image.convert_image_dtype(tf.io.decode_jpeg(texts["image"], channels=3), tf.float32)
    mask = tf.cast(tf.io.decode_png(texts["mask"], channels=1), tf.int32)
    image, mask = tf.ensure_shape(image, (SIZE, SIZE, 3)), tf.ensure_shape(mask, (SIZE, SIZE, 1))
    if tf.random.uniform(()) < 0.5:
        image, mask = image[:, ::-1], mask[:, ::-1]
    return image, mask[..., 0]


def darken_corners(image: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    square = tf.linspace(-1.0, 1.0, SIZE) ** 2
    return image * (1 - tf.random.uniform(()) * tf.minimum(square[:, None] + square[None, :], 1.0))[..., None], mask


def darken_pixel_by_pixel(image: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """The same as `darken_corners`, as it is often written first."""
    square = (np.linspace(-1, 1, SIZE) ** 2).tolist()
    darkened = np.empty_like(image)
    for row in range(SIZE):
        for column in range(SIZE):
            darkened[row, column] = image[row, column] * (1 - strength * min(square[row] + square[column], 1))
    return darkened


def darken_in_python(image: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    darkened = tf.numpy_function(darken_pixel_by_pixel, [image, tf.random.uniform(())], tf.float32)
    return tf.ensure_shape(darkened, (SIZE, SIZE, 3)), mask


def smooth(image: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Three passes of a separable 7x7 convolution over each picture, far more than the rest of its preparation."""
    depthwise, pointwise = tf.ones((7, 7, 3, 8)) / 49, tf.ones((1, 1, 24, 3)) / 24
    for _ in range(3):
        image = tf.nn.separable_conv2d(image[None], depthwise, pointwise, strides=[1, 1, 1, 1], padding="SAME")[0]
    return image, mask


def served(records: tf.data.Dataset) -> tf.data.Dataset:
    """The same records as a line of 4 MB/s would send them."""

    def receive():
        for record in records.as_numpy_iterator():
            # Not a real network: the sleep stands for the line, and gives the core away as a real one does.
            time.sleep(len(record) / LINE_BYTES_PER_S)
            yield record

    return tf.data.Dataset.from_generator(receive, output_signature=tf.TensorSpec([], tf.string))


def every_tenth(records: tf.data.Dataset) -> tf.data.Dataset:
    """Of ten records that are read, one is kept."""
    return records.enumerate().filter(lambda index, _: index % 10 == 0).map(lambda _, record: record)


def large_and_small(batches: tf.data.Dataset, sizes: int) -> tf.data.Dataset:
    """Batches of `sizes` sizes of picture in turn, as in training at several scales."""
    scales = [SIZE - 8 * index for index in range(sizes)]

    def resize(index: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.gather(scales, index % sizes)
        mask = tf.image.resize(batch[1][..., None], (size, size), method="nearest")[..., 0]
        return tf.image.resize(batch[0], (size, size)), mask

    return batches.enumerate().map(resize, num_parallel_calls=tf.data.AUTOTUNE)
