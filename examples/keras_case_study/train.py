"""Train a small image segmentation with Keras and tf.data; `--variant` plants one performance problem (see ../README.md)."""

import argparse
import json
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

from callbacks import FadeLearningRate, SaveRandomPictures, Throughput
from model import make_model
from pictures import (
    CLASSES,
    COMPRESSION,
    darken_corners,
    darken_in_python,
    every_tenth,
    large_and_small,
    make_files,
    parse,
    served,
    smooth,
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The healthy base."""

    batch_size: int = 16
    keep: str = "all"
    darken: str = "graph"
    smooth: str = "off"
    parallel: str = "on"
    kernel_of_output: int = 0
    save_pictures: str = "off"
    fade: str = "off"
    compile: str = "off"
    picture_sizes: int = 1
    steps: int = 200


BASE = Settings()
VARIANTS = {
    "healthy": BASE,
    "small-batch": replace(BASE, batch_size=2, steps=600),
    "throttled-input": replace(BASE, keep="tenth", steps=100),
    "overloaded-preprocessing": replace(BASE, smooth="on", steps=80),
    "python-in-input": replace(BASE, darken="python", steps=80),
    "missing-prefetch": replace(BASE, parallel="off"),
    "inefficient-operation": replace(BASE, kernel_of_output=15, steps=120),
    "slow-callback": replace(BASE, save_pictures="on", steps=120),
    "retracing": replace(BASE, fade="python"),
    "recompiling": replace(BASE, compile="on", picture_sizes=8, steps=120),
}


def read_command_line() -> tuple[argparse.Namespace, Settings]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=VARIANTS, default="healthy")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--keep", choices=["all", "tenth"], help="how many of the records that a line of 4 MB/s sends are trained on")
    parser.add_argument("--darken", choices=["graph", "python"], help="how the corners of pictures are darkened")
    parser.add_argument("--smooth", choices=["off", "on"], help="convolve each picture before it is trained on")
    parser.add_argument(
        "--parallel", choices=["off", "on"], help="whether pictures are prepared several at once, and ahead of the training"
    )
    parser.add_argument("--kernel-of-output", type=int, help="size of a convolution over what the model gives; 0: none")
    parser.add_argument("--save-pictures", choices=["off", "on"], help="store 64 pictures after every step")
    parser.add_argument("--fade", choices=["off", "python"], help="let the learning rate fade by a function of a Python number")
    parser.add_argument("--compile", choices=["off", "on"], help="compile with XLA")
    parser.add_argument("--picture-sizes", type=int, help="how many sizes of picture take turns")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--threads", type=int, default=1, help="of one operation of TensorFlow's")
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data", help="where the pictures are kept")
    parser.add_argument("--output", type=Path, help="pictures that are stored; default: a temporary folder")
    arguments = parser.parse_args()
    given = {name: getattr(arguments, name) for name in Settings.__dataclass_fields__ if getattr(arguments, name) is not None}
    return arguments, replace(VARIANTS[arguments.variant], **given)


def make_input(settings: Settings, files: list[str]) -> tf.data.Dataset:
    at_once = tf.data.AUTOTUNE if settings.parallel == "on" else None
    records = tf.data.TFRecordDataset(files, COMPRESSION)
    records = every_tenth(served(records)) if settings.keep == "tenth" else records.shuffle(256)
    samples = records.repeat().map(parse, num_parallel_calls=at_once)
    if settings.smooth == "on":
        samples = samples.map(smooth, num_parallel_calls=at_once)
    darken = darken_in_python if settings.darken == "python" else darken_corners
    batches = samples.map(darken, num_parallel_calls=at_once).batch(settings.batch_size, drop_remainder=True)
    if settings.picture_sizes > 1:
        batches = large_and_small(batches, settings.picture_sizes)
    return batches.prefetch(tf.data.AUTOTUNE) if settings.parallel == "on" else batches


def train(settings: Settings, batches: tf.data.Dataset, output: Path) -> dict[str, float]:
    model = make_model(CLASSES, kernel_of_output=settings.kernel_of_output)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-3), loss, jit_compile=settings.compile == "on")
    throughput = Throughput(settings.batch_size)
    callbacks = [throughput]
    if settings.save_pictures == "on":
        callbacks.append(SaveRandomPictures(output))
    if settings.fade == "python":
        callbacks.append(FadeLearningRate(settings.steps))
    history = model.fit(batches, steps_per_epoch=settings.steps, verbose=2, callbacks=callbacks)
    return {"steps": settings.steps, "samples_per_s": throughput.samples_per_s(), "loss": history.history["loss"][-1]}


def main() -> None:
    arguments, settings = read_command_line()
    keras.utils.set_random_seed(0)
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    with tempfile.TemporaryDirectory(prefix="case-study-") as temporary:
        output = arguments.output or Path(temporary)
        output.mkdir(parents=True, exist_ok=True)
        result = train(settings, make_input(settings, make_files(arguments.data)), output)
    print(json.dumps({"variant": arguments.variant, **result}))


if __name__ == "__main__":
    main()
