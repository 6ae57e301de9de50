"""Parts are values: their words are made in one place, and nothing reads them again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowstep
from made_measured_traces import measured_table
from made_parts import dry_part, function_part, lines_part
from slowstep import part_words
from slowstep.analyses.events.parts import KERNELS, LAUNCH, is_part, parts_of, piece
from slowstep.analyses.python.span_names import named_part, names_of
from slowstep.part_words import (
    part_in_words,
    part_name,
    part_name_and_place,
    part_place,
    part_without_place,
    parts_in_order,
    piece_in_words,
)
from slowstep.parts import BODY, CodePlace, Part, PartKind, PartPiece, PieceKind

PACKAGE = Path(slowstep.__file__).parent
WORDING = {name for name, kind in vars(part_words).items() if callable(kind) and getattr(kind, "__module__", None) == part_words.__name__}
# Of a text: what tells something of its content.
READING = (ast.Attribute, ast.Compare, ast.Subscript, ast.Dict, ast.Match)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (BODY, "forward and the rest"),
        (Part("compute", PartKind.CORE_WAIT), "waiting for a core"),
        (function_part("output", "draw", "train.py", 12), "draw (train.py:12)"),
        (lines_part("output", "train.py", 34), "train.py:34"),
        (lines_part("output", "train.py", 30, 34), "train.py:30-34"),
        (Part("output", PartKind.LIBRARY_CALL, "print"), "print (called by the loop)"),
        (Part("store", PartKind.SAVE, "torch.save"), "checkpoint by torch.save"),
        (Part("output", PartKind.CALLBACK, "Plot.on_x", CodePlace("train.py", 9)), "callback: Plot.on_x (train.py:9)"),
        (LAUNCH, "launch"),
        (piece(LAUNCH, PieceKind.BETWEEN_STEPS), "launch: between steps"),
        (dry_part("cudaFree"), "device idle after cudaFree"),
        (dry_part("cudaFree", "step (train.py:82)"), "device idle after cudaFree in step (train.py:82)"),
        (piece(dry_part("cudaFree", "train.py"), PieceKind.LOSS_SCALING), "device idle after cudaFree in train.py: loss scaling"),
        (piece(KERNELS, PieceKind.KERNELS, "matmul", "float32"), "kernels: matmul, float32"),
        (piece(KERNELS, PieceKind.KERNELS, "matmul", None), "kernels: matmul, unknown precision"),
        (piece(KERNELS, PieceKind.RANGE, of=function_part("output", "draw", "train.py", 12)), "kernels: draw (train.py:12)"),
        (Part("preprocess", PartKind.ROLL_OUT, None, CodePlace("train.py", 5, 9)), "roll-out: train.py:5-9"),
        (Part("compute", PartKind.BESIDE_BACKWARD, "update", CodePlace("train.py", 5)), "apart from backward: update (train.py:5)"),
    ],
    ids=str,
)
def test_a_part_in_words(part, words):
    assert part_in_words(part) == words


def test_of_a_part_its_own_name_and_its_place_can_be_said_alone():
    callback = Part("output", PartKind.CALLBACK, "Plot.on_x", CodePlace("train.py", 9))

    assert (part_name(callback), part_place(callback)) == ("Plot.on_x", "train.py:9")
    assert (part_without_place(callback), part_name_and_place(callback)) == ("callback: Plot.on_x", "Plot.on_x (train.py:9)")


def test_every_kind_has_words():
    assert set(part_words._WORDS) == set(PartKind)


@pytest.mark.parametrize("kind", PieceKind)
def test_every_kind_of_a_piece_has_words_or_is_called_by_its_names(kind):
    named = {PieceKind.KERNELS, PieceKind.PRECISION, PieceKind.LINE, PieceKind.RANGE, PieceKind.RULE}

    assert piece_in_words(PartPiece(kind, ("its name",))) == "its name" if kind in named else piece_in_words(PartPiece(kind))


def test_parts_are_in_the_order_of_stages_and_then_of_their_words():
    draw, core = function_part("output", "draw", "train.py", 1), Part("output", PartKind.CORE_WAIT)

    assert parts_in_order([core, draw, BODY]) == [BODY, draw, core]


@pytest.mark.parametrize("place", [None, CodePlace("train.py", 9)], ids=["nowhere", "somewhere"])
@pytest.mark.parametrize("kind", ["CALLBACK", "PROGRESS_BAR", "LOGGING", "METRICS", "CHECKPOINT", "TRANSFORM", "SPAN"])
def test_what_a_framework_calls_is_recorded_as_its_part_is_called(kind, place):
    part = Part("output", PartKind[kind], "Plot.on_x", place)

    assert named_part("output", part_without_place(part), place) == part


@pytest.mark.parametrize("kind", ["VALIDATION", "FORWARD", "BACKWARD", "OPTIMIZER"])
def test_so_is_what_has_no_name_of_its_own(kind):
    part = Part("compute", PartKind[kind])

    assert named_part("compute", part_in_words(part), None) == part


def test_what_a_framework_calls_its_compiler_at_work_is_that_part_and_is_found_by_it():
    assert named_part("compute", "torch.compile at work", None) == Part("compute", PartKind.COMPILING)
    assert names_of(PartKind.COMPILING) == ["torch.compile at work"]


def test_no_code_reads_the_words_of_a_part():
    texts = {file: file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py") if file.name != "part_words.py"}
    taking = {file: text for file, text in texts.items() if "part_words" in text}

    assert taking
    assert [f"{file.relative_to(PACKAGE)}:{line}" for file, text in taking.items() for line in read_again(ast.parse(text))] == []


def test_rows_of_a_part_are_found_by_it():
    dry = [dry_part("cudaFree"), dry_part("cudaFree", "step (train.py:82)")]
    parts = [LAUNCH, KERNELS, *dry, function_part("output", "draw", "train.py", 12)]
    table = measured_table("gaps", [{"step": 0, "part": part} for part in parts])

    assert [table.filter(is_part(part)).height for part in parts] == [1] * len(parts)
    assert sorted(map(part_in_words, parts_of(table))) == sorted(map(part_in_words, parts))
    assert table.filter(is_part()).is_empty()


def test_reading_them_is_seen():
    said = """
def f(part):
    name = part_in_words(part)
    return name.startswith("callback") or part_name(part) == "draw" or name[:4] or {part_place(part): 1} or f"{name} takes"
"""

    assert sorted(read_again(ast.parse(said))) == [4, 4, 4, 4]


@pytest.mark.parametrize(
    "text",
    [
        "part_words.part_name(part) == 'draw'",
        "(name := part_name(part)) and name.startswith('draw')",
        "(name := part_name(part)).startswith('draw')",
    ],
)
def test_reading_them_is_seen_however_they_are_held(text):
    assert [*read_again(ast.parse(f"def f(part): return {text}"))] == [1]


def test_reading_what_a_declared_name_holds_is_seen():
    assert [*read_again(ast.parse("def f(part):\n    name: str = part_name(part)\n    return name[:4]"))] == [3]


def read_again(tree: ast.AST) -> Iterator[int]:
    """Lines that look into the words of a part, or take them for a key: of a call that makes them, or of a name that holds such."""
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
    for scope in functions:
        holding = {name for node in ast.walk(scope) for name in _held(node)}
        for parent in ast.walk(scope):
            if isinstance(parent, READING):
                yield from (node.lineno for node in _looked_into(parent) if _is_wording(node) or _is_held(node, holding))


def _held(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            targets = [target]
        case _:
            return
    for target in targets:
        pairs = zip(target.elts, value.elts, strict=False) if _are_tuples(target, value) else ((target, value),)
        yield from (into.id for into, each in pairs if isinstance(into, ast.Name) and _is_wording(each))


def _are_tuples(*nodes: ast.expr) -> bool:
    return all(isinstance(node, ast.Tuple) for node in nodes)


def _looked_into(parent: ast.AST) -> list[ast.expr]:
    if isinstance(parent, ast.Compare):
        return [parent.left, *parent.comparators]
    if isinstance(parent, ast.Dict):
        return [key for key in parent.keys if key is not None]
    if isinstance(parent, ast.Match):
        return [parent.subject]
    return [parent.value, *([parent.slice] if isinstance(parent, ast.Subscript) else [])]


def _is_wording(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in WORDING
        case ast.NamedExpr(value=value):
            return _is_wording(value)
    return False


def _is_held(node: ast.expr, holding: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in holding
