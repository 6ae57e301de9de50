import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
x = np.random.rand(512, 8).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def slow(a, b):
    def f(u):
        time.sleep(0.004)
        return u

    a = tf.numpy_function(f, [a], tf.float32)
    a.set_shape((8,))
    return a, b


data = tf.data.Dataset.from_tensor_slices((x, y)).batch(1).unbatch().map(slow).batch(4).prefetch(1)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(
    data,
    epochs=1,
    steps_per_epoch=30,
    verbose=0,
    callbacks=[keras.callbacks.TensorBoard(sys.argv[1], profile_batch=(10, 16), write_graph=False)],
)
print(tf.__version__, keras.__version__)
