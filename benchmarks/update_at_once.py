"""What an update takes that is written for all tensors at once, beside a loop over them: by kind of update and by size of the tensors.

Prints one row a kind and size: the loop's time for a tensor, and the other's share of the loop's, in turns, of the fastest rounds. One
core, no options. `slowstep.calibration.updating` holds the usual share and its bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

ROUNDS = 30
SIDES = (8, 16, 24, 32, 48, 64, 96)
COUNTS = (24, 64, 160)
Tensors = list[torch.Tensor]
Update = Callable[[Tensors, Tensors, Tensors], object]


def orthogonal(g: torch.Tensor) -> torch.Tensor:
    x = g / (g.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x


def muon_loop(params: Tensors, grads: Tensors, state: Tensors) -> None:
    for p, g, m in zip(params, grads, state, strict=True):
        p.add_(orthogonal(m.mul_(0.9).add_(g)), alpha=-1e-6)


def muon_once(params: Tensors, grads: Tensors, state: Tensors) -> None:
    torch._foreach_mul_(state, 0.9)
    torch._foreach_add_(state, grads)
    torch._foreach_add_(params, list(orthogonal(torch.stack(state)).unbind()), alpha=-1e-6)


def lion_loop(params: Tensors, grads: Tensors, state: Tensors) -> None:
    for p, g, m in zip(params, grads, state, strict=True):
        p.add_((0.9 * m + 0.1 * g).sign_(), alpha=-1e-6)
        m.mul_(0.99).add_(g, alpha=0.01)


def lion_once(params: Tensors, grads: Tensors, state: Tensors) -> None:
    step = torch._foreach_mul(state, 0.9)
    torch._foreach_add_(step, grads, alpha=0.1)
    torch._foreach_sign_(step)
    torch._foreach_add_(params, step, alpha=-1e-6)
    torch._foreach_mul_(state, 0.99)
    torch._foreach_add_(state, grads, alpha=0.01)


def adam_loop(params: Tensors, grads: Tensors, state: Tensors) -> None:
    for p, g, m in zip(params, grads, state, strict=True):
        m.mul_(0.9).add_(g, alpha=0.1)
        v = g.square().mul_(0.001).add_(m.abs())
        p.addcdiv_(m, v.sqrt_().add_(1e-8), value=-1e-6)


def adam_once(params: Tensors, grads: Tensors, state: Tensors) -> None:
    torch._foreach_mul_(state, 0.9)
    torch._foreach_add_(state, grads, alpha=0.1)
    v = torch._foreach_mul(grads, grads)
    torch._foreach_mul_(v, 0.001)
    torch._foreach_add_(v, torch._foreach_abs(state))
    torch._foreach_sqrt_(v)
    torch._foreach_add_(v, 1e-8)
    torch._foreach_addcdiv_(params, state, v, value=-1e-6)


def scaled_loop(params: Tensors, grads: Tensors, state: Tensors) -> None:
    """Each tensor's step by its own norms, as LARS and LAMB do."""
    for p, g, _ in zip(params, grads, state, strict=True):
        trust = p.norm() / (g.norm() + 1e-8)
        p.sub_(1e-6 * trust * g)


def scaled_once(params: Tensors, grads: Tensors, state: Tensors) -> None:
    trust = torch.stack(torch._foreach_norm(params)) / (torch.stack(torch._foreach_norm(grads)) + 1e-8)
    torch._foreach_sub_(params, torch._foreach_mul(grads, list((1e-6 * trust).unbind())))


def whitened_loop(params: Tensors, grads: Tensors, state: Tensors) -> None:
    """Second moments of rows, and products with them, as Shampoo and SOAP do between their roots."""
    for p, g, m in zip(params, grads, state, strict=True):
        m.lerp_(g @ g.mT, 0.05)
        p.sub_(1e-6 * (m @ g @ m))


def whitened_once(params: Tensors, grads: Tensors, state: Tensors) -> None:
    g = torch.stack(grads)
    torch._foreach_lerp_(state, list((g @ g.mT).unbind()), 0.05)
    m = torch.stack(state)
    torch._foreach_add_(params, list((m @ g @ m).unbind()), alpha=-1e-6)


def noisy_loop(params: Tensors, grads: Tensors, state: Tensors) -> None:
    """Langevin dynamics."""
    for p, g, _ in zip(params, grads, state, strict=True):
        p.sub_(1e-6 * g + 1e-9 * torch.randn_like(p))


def noisy_once(params: Tensors, grads: Tensors, state: Tensors) -> None:
    noise = torch.randn(sum(p.numel() for p in params)).split([p.numel() for p in params])
    step = torch._foreach_mul(grads, 1e-6)
    torch._foreach_add_(step, [n.view_as(p) for n, p in zip(noise, params, strict=True)], alpha=1e-9)
    torch._foreach_sub_(params, step)


def roots(g: torch.Tensor) -> torch.Tensor:
    """The inverse square root of a second moment, by coupled Newton iterations, as Shampoo takes it."""
    eye = torch.eye(g.shape[-1])
    a = g @ g.mT + eye
    a = a / a.norm(dim=(-2, -1), keepdim=True)
    y, z = a, eye.expand_as(a)
    for _ in range(6):
        t = 1.5 * eye - 0.5 * (z @ y)
        y, z = y @ t, t @ z
    return z


def rooted_loop(params: Tensors, grads: Tensors, state: Tensors) -> None:
    for p, g, _ in zip(params, grads, state, strict=True):
        p.sub_(1e-6 * (roots(g) @ g))


def rooted_once(params: Tensors, grads: Tensors, state: Tensors) -> None:
    g = torch.stack(grads)
    torch._foreach_add_(params, list((roots(g) @ g).unbind()), alpha=-1e-6)


def split_loop(params: Tensors, grads: Tensors, state: Tensors) -> None:
    """Eigenvectors of each second moment: an operation that takes as long for a stack."""
    for p, g, _ in zip(params, grads, state, strict=True):
        p.sub_(1e-6 * (torch.linalg.eigh(g @ g.mT)[1] @ g))


def split_once(params: Tensors, grads: Tensors, state: Tensors) -> None:
    g = torch.stack(grads)
    torch._foreach_add_(params, list((torch.linalg.eigh(g @ g.mT)[1] @ g).unbind()), alpha=-1e-6)


def chained(g: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """Centred, clipped, of bounded change, and more: a long chain of operations each of which takes no longer than its dispatch."""
    g = g - g.mean(dim=(-2, -1), keepdim=True)
    g = g / (g.norm(dim=(-2, -1), keepdim=True) + 1e-8)
    for power in range(4):
        m = 0.9 * m + 0.1 * torch.where(m * g > 0, g, torch.zeros_like(g))
        g = torch.tanh(g + 0.5**power * m).clamp(-1.0, 1.0)
    return g * m.abs().clamp_min(1e-3).rsqrt()


def chained_loop(params: Tensors, grads: Tensors, state: Tensors) -> None:
    for p, g, m in zip(params, grads, state, strict=True):
        p.sub_(1e-6 * chained(g, m))


def chained_once(params: Tensors, grads: Tensors, state: Tensors) -> None:
    torch._foreach_add_(params, list(chained(torch.stack(grads), torch.stack(state)).unbind()), alpha=-1e-6)


KINDS: dict[str, tuple[Update, Update]] = {
    "orthogonal": (muon_loop, muon_once),
    "sign": (lion_loop, lion_once),
    "moments": (adam_loop, adam_once),
    "norms": (scaled_loop, scaled_once),
    "products": (whitened_loop, whitened_once),
    "noise": (noisy_loop, noisy_once),
    "roots": (rooted_loop, rooted_once),
    "chain": (chained_loop, chained_once),
    "eigenvectors": (split_loop, split_once),
}


def measure(loop: Update, once: Update, count: int, side: int) -> tuple[float, float]:
    """Seconds of either, the fastest of rounds in turns."""
    fastest = [float("inf")] * 2
    tensors = [[torch.randn(side, side) for _ in range(count)] for _ in range(3)]
    for _ in range(ROUNDS):
        for which, update in enumerate((loop, once)):
            begin = time.perf_counter()
            update(*tensors)
            fastest[which] = min(fastest[which], time.perf_counter() - begin)
    return fastest[0], fastest[1]


def main() -> None:
    torch.set_num_threads(1)
    with torch.no_grad():
        for name, (loop, once) in KINDS.items():
            for side in SIDES:
                shares = []
                for count in COUNTS:
                    looped, at_once = measure(loop, once, count, side)
                    shares.append(f"{count} tensors {1e6 * looped / count:6.1f} us each, {at_once / looped:.2f}")
                print(f"{name:12} {side:3} x {side:3}  {'; '.join(shares)}", flush=True)


if __name__ == "__main__":
    main()
