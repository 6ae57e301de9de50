"""A small encoder-decoder that gives a class to every pixel."""

import keras
import tensorflow as tf
from keras import layers


class DoubledSize(layers.Layer):
    """Between pixels, as `UpSampling2D` does it, which cannot be compiled with XLA where sizes differ from batch to batch."""

    def call(self, features):
        return tf.image.resize(features, 2 * tf.shape(features)[1:3])


def conv(features, width: int, stride: int = 1):
    features = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(features)
    return layers.ReLU()(layers.BatchNormalization()(features))


def make_model(classes: int, widths: tuple[int, ...] = (12, 24, 48), kernel_of_output: int = 0) -> keras.Model:
    """Pictures of any size that the levels can halve. `kernel_of_output`: of a convolution over all that comes out, 0 for none."""
    images = keras.Input((None, None, 3))
    seen = [conv(images, widths[0], stride=2)]
    for width in widths[1:]:
        seen.append(conv(conv(seen[-1], width, stride=2), width))
    features = seen.pop()
    for width in reversed(widths[:-1]):
        features = conv(layers.Concatenate()([seen.pop(), layers.UpSampling2D()(features)]), width)
    logits = DoubledSize()(layers.Conv2D(classes, 1)(features))
    if kernel_of_output:
        logits = layers.Conv2D(classes, kernel_of_output, padding="same")(logits)
    return keras.Model(images, logits)
