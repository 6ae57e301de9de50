"""A small encoder-decoder that gives a class to every pixel, and Adam, in plain JAX."""

import jax
import jax.numpy as jnp
import numpy as np

FORM = ("NHWC", "HWIO", "NHWC")
RATE, MEAN_DECAY, SQUARE_DECAY, TINY = 1e-3, 0.9, 0.999, 1e-8


def init(rng: np.random.Generator, classes: int, widths: tuple[int, ...] = (12, 24)) -> dict:
    """Weights and biases of each convolution, and what Adam keeps of them."""
    inputs, shapes = 3, {}
    for level, width in enumerate(widths):
        shapes[f"down{level}"] = (3, 3, inputs, width)
        inputs = width
    for level in reversed(range(len(widths) - 1)):
        shapes[f"up{level}"] = (3, 3, inputs + widths[level], widths[level])
        inputs = widths[level]
    shapes["classes"] = (1, 1, inputs, classes)
    params = {name: (kernel(rng, shape), np.zeros(shape[-1], "f")) for name, shape in shapes.items()}
    nothing = jax.tree.map(np.zeros_like, params)
    return jax.device_put({"params": params, "mean": nothing, "square": nothing, "steps": np.zeros((), "f")})


def kernel(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))).astype("f")


def conv(features: jax.Array, weights: tuple[jax.Array, jax.Array], stride: int = 1) -> jax.Array:
    kernel, bias = weights
    return jax.lax.conv_general_dilated(features, kernel, (stride, stride), "SAME", dimension_numbers=FORM) + bias


def logits_of(params: dict, images: jax.Array) -> jax.Array:
    """Of pictures of any size that the levels can halve."""
    features, seen = images, []
    for level in range(sum(name.startswith("down") for name in params)):
        features = jax.nn.relu(conv(features, params[f"down{level}"], stride=2))
        seen.append(features)
    seen.pop()
    for level in reversed(range(len(seen))):
        features = jnp.concatenate([seen[level], doubled(features)], axis=-1)
        features = jax.nn.relu(conv(features, params[f"up{level}"]))
    return doubled(conv(features, params["classes"]))


def doubled(features: jax.Array) -> jax.Array:
    return features.repeat(2, axis=1).repeat(2, axis=2)


def loss_of(params: dict, images: jax.Array, masks: jax.Array) -> jax.Array:
    chances = jax.nn.log_softmax(logits_of(params, images.astype(jnp.float32) / 255))
    return -jnp.take_along_axis(chances, masks[..., None].astype(jnp.int32), axis=-1).mean()


@jax.jit
def train_step(state: dict, images: jax.Array, masks: jax.Array) -> tuple[dict, jax.Array]:
    """Gradients and one update by Adam."""
    loss, gradients = jax.value_and_grad(loss_of)(state["params"], images, masks)
    steps = state["steps"] + 1
    mean = jax.tree.map(lambda old, new: MEAN_DECAY * old + (1 - MEAN_DECAY) * new, state["mean"], gradients)
    square = jax.tree.map(lambda old, new: SQUARE_DECAY * old + (1 - SQUARE_DECAY) * new**2, state["square"], gradients)

    def updated(value: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
        return value - RATE * (first / (1 - MEAN_DECAY**steps)) / (jnp.sqrt(second / (1 - SQUARE_DECAY**steps)) + TINY)

    params = jax.tree.map(updated, state["params"], mean, square)
    return {"params": params, "mean": mean, "square": square, "steps": steps}, loss
