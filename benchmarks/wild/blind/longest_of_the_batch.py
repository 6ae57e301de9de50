"""JAX, own loop: sentences, each batch padded to its longest, by a compiled step."""

import argparse
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCAB, DIM, LAYERS, BATCH = 500, 32, 1, 4


def init(key):
    def dense(key, i, o):
        return jax.random.normal(key, (i, o)) * i**-0.5

    keys = iter(jax.random.split(key, 2 + 6 * LAYERS))
    blocks = [
        {
            "q": dense(next(keys), DIM, DIM),
            "k": dense(next(keys), DIM, DIM),
            "v": dense(next(keys), DIM, DIM),
            "o": dense(next(keys), DIM, DIM),
            "up": dense(next(keys), DIM, 2 * DIM),
            "down": dense(next(keys), 2 * DIM, DIM),
        }
        for _ in range(LAYERS)
    ]
    return {"embed": jax.random.normal(next(keys), (VOCAB, DIM)) * 0.1, "blocks": blocks, "head": dense(next(keys), DIM, VOCAB)}


def normed(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def loss_fn(params, tokens, mask):
    x = params["embed"][tokens]
    hidden = ~(mask[:, None, :] & jnp.tril(jnp.ones((tokens.shape[1],) * 2, bool)))
    for block in params["blocks"]:
        h = normed(x)
        scores = jnp.einsum("btd,bsd->bts", h @ block["q"], h @ block["k"]) * DIM**-0.5
        x = x + jax.nn.softmax(jnp.where(hidden, -1e9, scores)) @ (h @ block["v"]) @ block["o"]
        x = x + jax.nn.gelu(normed(x) @ block["up"]) @ block["down"]
    logits = (normed(x) @ params["head"])[:, :-1]
    each = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
    return (each * mask[:, 1:]).sum() / mask[:, 1:].sum()


tx = optax.adam(1e-3)


@jax.jit
def train_step(params, state, tokens, mask):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, mask)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


def collate(sentences, multiple):
    longest = max(len(s) for s in sentences)
    width = -(-longest // multiple) * multiple
    tokens, mask = np.zeros((len(sentences), width), np.int32), np.zeros((len(sentences), width), bool)
    for i, sentence in enumerate(sentences):
        tokens[i, : len(sentence)], mask[i, : len(sentence)] = sentence, True
    return tokens, mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--fixed", action="store_true", help="pad to the next multiple of 64")
    args = parser.parse_args()
    steps = args.steps * 8 if args.fixed else args.steps
    rng = np.random.default_rng(0)
    params = init(jax.random.PRNGKey(0))
    state = tx.init(params)
    for step in range(steps):
        if step == 5:
            start = time.perf_counter()
        lengths = np.exp(rng.uniform(np.log(16), np.log(256), BATCH)).astype(int)
        tokens, mask = collate([rng.integers(0, VOCAB, n) for n in lengths], 64 if args.fixed else 1)
        params, state, loss = train_step(params, state, tokens, mask)
        if step % 20 == 0:
            print(f"step {step} loss {float(loss):.4f}", flush=True)
    jax.block_until_ready(params)
    seconds = time.perf_counter() - start
    samples = (steps - 5) * BATCH
    print(json.dumps({"steps": steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
