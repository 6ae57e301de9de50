from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events, at
from slowstep.analyses.input.padding import PaddingLook
from slowstep.analyses.measure_recording import measure_recording

LENGTHS = [10, 20, 30, 40, 50, 60, 70, 80] * 4
# A model of one product on all places of 32 sequences, and one on the sequences.
SHAPES = [[[32 * 100, 64], 1, 32 * 100 * 64, 32 * 100 * 64 * 64], [[32, 64], 1, 32 * 64, 32 * 64 * 64]]


def _array(**changes: Any) -> dict[str, Any]:
    of_runs = {"lengths": LENGTHS, "value": 0, "side": 1, "inside": 0, "values": 500}
    return {"array": 0, "rows": 32, "length": 100, **of_runs, "mask": False, **changes}


def _look(
    folder: Path, *arrays: dict[str, Any], looks: int = 4, iterator: int = 0, shapes: Any = SHAPES, **graph: int
) -> PaddingLook | None:
    events = Events(folder)
    events.loader()
    end = 0.0
    for k in range(10):
        end = events.step(end, batch=k)
    for k in range(looks):
        events.trainer.lines.append({"kind": "padded", "at_ns": at(10.0 * k), "iterator": iterator, "batch": k, "arrays": list(arrays)})
    events.trainer.lines.append({"kind": "shapes", "at_ns": at(35.0), "nodes": 4, "shapes": shapes, **graph})
    return measure_recording(events.timeline(), warmup=0).input.padding


def test_no_batch_that_was_looked_at_tells_nothing(tmp_path: Path) -> None:
    assert _look(tmp_path, looks=0) is None


def test_batches_of_another_loader_than_the_trainings_tell_nothing(tmp_path: Path) -> None:
    assert _look(tmp_path, _array(), iterator=7) is None


def test_the_share_of_padding_and_what_shorter_batches_leave(tmp_path: Path) -> None:
    look = _look(tmp_path, _array())

    assert look is not None
    found = look.found[0]
    assert (look.looks, found.batches, found.length, found.longest, found.rows) == (4, 4, 100, 80, 32)
    assert found.padded == pytest.approx(0.55)
    assert found.to_longest.places == pytest.approx(0.8)
    assert found.to_longest.squares == pytest.approx(0.64)
    # Sorted, the four batches of 32 hold lengths of 70 and 80, 50 and 60, and so on.
    assert found.bucketed.places == pytest.approx((80 + 60 + 40 + 20) / 400)
    assert found.unpadded.places == pytest.approx(0.45)
    assert not found.is_dynamic


def test_arrays_of_two_loaders_are_not_taken_for_one(tmp_path: Path) -> None:
    events = Events(tmp_path)
    end = 0.0
    for loader in range(2):
        events.loader(iterator=loader, loader=loader)
    for k in range(12):
        end = events.step(end, batch=k // 2, iterator=k % 2)
        arrays = [_array() if k % 2 else _full(0, length=300)]
        events.trainer.lines.append({"kind": "padded", "at_ns": at(10.0 * k), "iterator": k % 2, "batch": k // 2, "arrays": arrays})
    look = measure_recording(events.timeline(), warmup=0).input.padding

    assert look is not None
    assert [(found.batches, found.length, found.longest) for found in look.found] == [(6, 100, 80)]


def test_batches_that_are_as_long_as_their_longest_sequence_are_padded_dynamically(tmp_path: Path) -> None:
    look = _look(tmp_path, _array(length=80), shapes=[])

    assert look is not None
    assert look.found[0].is_dynamic
    assert look.found[0].to_longest.places == 1.0
    assert look.found[0].work is None


def test_what_grows_with_the_length_is_told_by_shapes(tmp_path: Path) -> None:
    look = _look(tmp_path, _array())

    assert look is not None
    work = look.found[0].work
    assert work is not None
    assert work.least.linear < work.usual.linear < work.most.linear
    # All but the dispatch of four nodes and the sequences' own product.
    assert work.usual.linear == pytest.approx(700_416 / (700_416 + 56_000 + 7_004), rel=0.01)
    assert work.usual.square == 0.0


def test_a_square_of_the_length_is_told_apart(tmp_path: Path) -> None:
    look = _look(tmp_path, _array(), shapes=[*SHAPES, [[32, 4, 100, 100], 10, 12_800_000, 0]])

    assert look is not None
    assert look.found[0].work is not None
    assert look.found[0].work.usual.square > look.found[0].work.usual.linear > 0


def test_samples_by_features_as_many_as_places_do_not_grow(tmp_path: Path) -> None:
    look = _look(tmp_path, _array(), shapes=[[[32, 100], 10, 32_000, 3_200_000]])

    assert look is not None
    assert look.found[0].work is not None
    assert look.found[0].work.most.linear == 0.0


def test_a_model_with_weights_for_each_place_takes_no_shorter_sequences(tmp_path: Path) -> None:
    sequences = [[32, 100, 64], 1, 32 * 100 * 64, 0]
    flattened, kept = (_look(tmp_path / str(width), _array(), shapes=[*SHAPES, sequences, [[32, width], 1, 1, 0]]) for width in (6400, 640))

    assert flattened is not None
    assert kept is not None
    assert [look.found[0].work.most.linear > 0 for look in (flattened, kept) if look.found[0].work is not None] == [False, True]


def test_a_loop_over_places_grows_with_them(tmp_path: Path) -> None:
    loop = [[[32, 64], 300, 300 * 32 * 64, 0]]
    look = _look(tmp_path, _array(), shapes=loop)

    assert look is not None
    assert look.found[0].work is not None
    assert look.found[0].work.usual.linear == pytest.approx(1.0)


def test_layers_that_are_alike_are_no_loop_for_each_uses_weights_of_its_own(tmp_path: Path) -> None:
    alike = [[[32, 64], 300, 300 * 32 * 64, 0]]
    layers, loop = (_look(tmp_path / str(uses), _array(), shapes=alike, uses=uses) for uses in (3, 99))

    assert layers is not None
    assert loop is not None
    assert [look.found[0].work.most.linear > 0 for look in (layers, loop) if look.found[0].work is not None] == [False, True]


def test_a_loop_over_packed_sequences_is_no_longer_than_the_longest_already(tmp_path: Path) -> None:
    packed = [[[sum(LENGTHS), 64], 1, sum(LENGTHS) * 64, 10_000], [[32, 64], 300, 300 * 32 * 64, 0]]
    look = _look(tmp_path, _array(), shapes=packed)

    assert look is not None
    assert look.found[0].work is not None
    assert look.found[0].work.most.linear == 0.0


@pytest.mark.parametrize(
    "changes",
    [{"inside": 1}, {"values": 2}, {"lengths": [10, 20, 30] * 11}, {"lengths": [90, 92, 94, 96, 98, 99] * 6}],
    ids=["zeros inside too", "flags", "few lengths", "short runs"],
)
def test_runs_that_chance_may_give_are_no_padding_but_by_a_mask(tmp_path: Path, changes: dict[str, Any]) -> None:
    by_runs = _look(tmp_path / "runs", _array(**changes))
    by_mask = _look(tmp_path / "mask", _array(**changes, mask=True))

    assert by_runs is not None
    assert by_runs.found == ()
    assert by_mask is not None
    assert len(by_mask.found) == 1


def test_inputs_and_what_is_said_of_each_of_their_places_are_one(tmp_path: Path) -> None:
    shifted = _array(array=3, length=99)
    look = _look(
        tmp_path, _array(mask=True), _array(array=1, value=-100), shifted, _array(array=2, length=50, lengths=[10, 20, 25, 30, 40, 45] * 6)
    )

    assert look is not None
    assert [(found.length, found.value, found.by_mask) for found in look.found] == [(100, 0, True), (50, 0, False)]


def _full(number: int, **changes: int) -> dict[str, Any]:
    return {"array": number, "rows": 32, "length": 100, "mask": False, **changes}


@pytest.mark.parametrize("mask", [False, True])
def test_labels_that_the_loss_leaves_out_are_no_padding_where_each_place_holds_a_token(tmp_path: Path, mask: bool) -> None:
    labels = _array(array=1, value=-100, side=-1, mask=mask)
    beside_tokens, alone = _look(tmp_path / "tokens", _full(0), labels), _look(tmp_path / "alone", labels, _full(2, length=50))

    assert beside_tokens is not None
    assert beside_tokens.found == ()
    assert alone is not None
    assert len(alone.found) == 1


def test_tokens_that_a_mask_hides_are_padding_whatever_their_positions_are(tmp_path: Path) -> None:
    look = _look(tmp_path, _array(mask=True), _full(1))

    assert look is not None
    assert len(look.found) == 1
