"""How much each operation of a pass multiplies, and how long its backward takes: by what torch itself tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch")

from slowstep.frameworks.torch.inside._autograd import product_looks  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_products import NodeProducts, find_products, multiplied_types  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_size import MOST_NODES, nodes_below  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.product_looks import ProductLooks  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

from torch import nn  # noqa: E402  # isort: skip

F = nn.functional


def _nodes(loss: Any) -> set[Any]:
    return nodes_below(loss, MOST_NODES) or set()


def _only(loss: Any) -> NodeProducts:
    found = find_products(_nodes(loss))
    assert found is not None
    ((only, _),) = found.items()
    return only


def _wanted(*shape: int) -> Any:
    return 2 * torch.ones(shape, requires_grad=True)


def test_a_dense_layer_multiplies_as_much_for_each_gradient():
    layer = nn.Linear(6, 10)

    assert _only(layer(_wanted(5, 6)).sum()) == NodeProducts("matrices", (5, 10), 300, 600, 30 + 60 + 50, 50 + 2 * 90)
    # Nobody wants the gradient of its input.
    assert _only(layer(torch.ones(5, 6)).sum()) == NodeProducts("matrices", (5, 10), 300, 300, 30 + 60 + 50, 50 + 90)


@pytest.mark.parametrize(
    "call",
    [lambda x, w: x @ w, torch.matmul, torch.mm, lambda x, w: F.linear(x, w.t()), lambda x, w: torch.addmm(torch.ones(10), x, w)],
    ids=["sign", "matmul", "mm", "linear", "addmm"],
)
def test_a_product_is_one_however_it_is_written(call):
    assert _only(call(_wanted(5, 6), _wanted(6, 10)).sum())[2:4] == (300, 600)


def test_several_matrices_are_multiplied_each():
    assert _only(torch.bmm(_wanted(3, 5, 6), _wanted(3, 6, 10)).sum())[2:6] == (900, 1800, 90 + 180 + 150, 150 + 2 * 270)


@pytest.mark.parametrize(
    ("layer", "products", "kernel"),
    [
        (nn.Conv2d(4, 6, (3, 5), padding=(1, 2)), 2 * 64 * 6 * 4 * 15, (3, 5)),
        (nn.Conv2d(4, 4, 3, groups=4, padding=1), 2 * 64 * 4 * 9, (3, 3)),
        (nn.ConvTranspose2d(4, 6, 2, stride=2), 2 * 64 * 4 * 6 * 4, ()),
    ],
    ids=["plain", "by channel", "transposed"],
)
def test_a_convolution_multiplies_each_place_with_its_weights(layer, products, kernel):
    given = _wanted(2, 4, 8, 8)
    made = layer(given)
    weights = layer.weight.numel()

    moved = given.numel() + weights
    assert _only(made.sum())[2:] == (products, 2 * products, moved + made.numel(), made.numel() + 2 * moved, kernel)


def test_what_a_first_layer_reads_is_told_by_what_it_keeps_or_not_at_all():
    found = _only(nn.Conv2d(3, 6, 3)(torch.ones(2, 3, 8, 8)).sum())

    assert (found.products, found.backward) == (2 * 36 * 6 * 27, 2 * 36 * 6 * 27)
    assert found.moved in (-1, 2 * 3 * 64 + 6 * 27 + 2 * 6 * 36)


def test_attention_multiplies_four_times_as_much_for_its_gradients_as_for_its_scores():
    query, key, value = (_wanted(2, 3, length, 8) for length in (5, 7, 7))
    scores = 2 * 3 * 5 * 7 * 8

    assert _only(F.scaled_dot_product_attention(query, key, value).sum())[:4] == ("attention", (2, 3, 5, 8), 2 * scores, 4 * scores)


@pytest.mark.parametrize(
    "loss",
    [
        lambda: nn.Linear(4, 4).double()(torch.ones(2, 4, dtype=torch.float64)),
        lambda: F.conv2d(_wanted(1, 2, 4, 4), torch.ones(2, 2, 3, 3)),
        lambda: F.scaled_dot_product_attention(*(_wanted(1, 1, 4, 4) for _ in range(3)), is_causal=True),
    ],
    ids=["another type", "weights without a gradient", "what looks back only"],
)
def test_what_no_shape_tells_is_not_known(loss):
    assert _only(loss().sum())[2:] == (-1, -1, -1, -1, ())


def test_what_does_the_same_stands_together_and_what_does_not_multiply_nowhere():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2))

    found = find_products(_nodes(net(_wanted(5, 8)).sum()))

    assert found is not None
    assert {(of.shape, len(alike)) for of, alike in found.items()} == {((5, 8), 2), ((5, 2), 1)}


def _looks() -> tuple[ProductLooks, list[dict[str, Any]]]:
    noted: list[dict[str, Any]] = []
    return ProductLooks(cast(Recorder, SimpleNamespace(note=noted.append))), noted


def test_a_pass_that_is_looked_at_tells_how_long_each_took_and_the_next_does_not():
    looks, noted = _looks()
    net = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 2))
    loss = net(torch.ones(64, 8)).sum()
    looks.look(_nodes(loss), 7)
    assert looks.is_open

    loss.backward(retain_graph=True)
    cost_ns = looks.ended()
    loss.backward()

    (note,) = noted
    assert (note["kind"], note["at_ns"], looks.is_open) == ("products", 7, False)
    assert cost_ns == 2 * product_looks.HOOKS_NS
    assert sorted(row[1] for row in note["rows"]) == [(64, 2), (64, 256)]
    assert all(0 < longest == total for *_, longest, total, _kernel in note["rows"])


def test_gradients_are_the_same_to_the_last_bit():
    looks, _ = _looks()
    torch.manual_seed(0)
    net, given = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)), torch.randn(5, 2, 8, 8)
    gradients = []
    for is_looked_at in (False, True):
        net.zero_grad()
        loss = net(given).square().sum()
        if is_looked_at:
            looks.look(_nodes(loss), 1)
        loss.backward()
        if is_looked_at:
            looks.ended()
        gradients.append([parameter.grad.clone() for parameter in net.parameters()])

    assert all(map(torch.equal, *gradients))


def test_a_pass_that_fails_is_noted_without_times_and_leaves_no_hooks():
    looks, noted = _looks()
    loss = nn.Linear(4, 2)(torch.ones(3, 4)).sum()
    looks.look(_nodes(loss), 1)

    looks.ended()
    loss.backward()

    assert [row[-3:] for row in noted[0]["rows"]] == [[-1, -1, ()]]
    assert len(noted) == 1


def test_beside_compiled_code_nothing_is_hooked(monkeypatch):
    looks, noted = _looks()
    monkeypatch.setattr(product_looks, "has_compiled", lambda: True)

    looks.look(_nodes(nn.Linear(4, 2)(torch.ones(3, 4)).sum()), 1)

    assert (looks.is_open, noted) == (False, [])


def test_of_more_operations_than_can_each_hold_much_nothing_is_noted(monkeypatch):
    monkeypatch.setattr("slowstep.frameworks.torch.inside._autograd.graph_products.MOST_PRODUCTS", 1)
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    assert find_products(_nodes(net(torch.ones(2, 4)).sum())) is None


def test_of_16_bits_are_those_that_multiply_under_autocast():
    net, x = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 4)), torch.ones(5, 6)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = multiplied_types(_nodes(net(x).float().sum()))

    assert narrow == {"multiplying": 2, "float16": 0, "bfloat16": 2}
    assert multiplied_types(_nodes(net(x).sum())) == {"multiplying": 2, "float16": 0, "bfloat16": 0}
