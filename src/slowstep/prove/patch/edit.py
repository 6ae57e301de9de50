"""Changes arguments of one call in a source, and leaves everything else of it as it is written."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slowstep.prove.patch.source import NoPatch, ScriptSource, parsed

PlainValue = bool | int | float | str | None

# What does more than to give a value: what follows may need that. Any call may, but for those that people size a loader by.
_DOES_MORE = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_ONLY_GIVES = frozenset(
    ("abs", "bool", "cpu_count", "float", "getattr", "getenv", "int", "len", "max", "min", "round", "sched_getaffinity", "str")
)
# Of a mapping, with a key; a queue's, which takes none, takes what it gives.
_LOOKS_UP = "get"


@dataclass(frozen=True, slots=True)
class _Splice:
    """Text in the place of what is between two offsets."""

    start: int
    end: int
    text: str


def edited(source: ScriptSource, call: ast.Call, changes: Mapping[str, PlainValue], takes: Sequence[str], *, takes_any: bool) -> str:
    """The text with the call's arguments changed: `takes` are the names of its parameters in order, `takes_any`: it has others, too.

    Raises NoPatch with the reason where it cannot be told from the source what the call is given, or that already is what is asked for.
    """
    splices, new = [], {}
    for name, value in changes.items():
        given = _given(call, name, takes, takes_any=takes_any)
        if given is None:
            new[name] = value
        elif any(map(_does_more, ast.walk(given))):
            raise NoPatch(f"what is given for {name} there does more than to give a value")
        elif not (isinstance(given, ast.Constant) and given.value == value and type(given.value) is type(value)):
            splices.append(_Splice(*_span(source, given), _written(value)))
    if new:
        splices += _inserted(source, call, [f"{name}={_written(value)}" for name, value in new.items()])
    if not splices:
        raise NoPatch("the call is given that already")
    text = source.text
    for splice in sorted(splices, key=lambda each: each.start, reverse=True):
        text = text[: splice.start] + splice.text + text[splice.end :]
    _check(source, call, changes, takes, text)
    return text


def _given(call: ast.Call, name: str, takes: Sequence[str], *, takes_any: bool) -> ast.expr | None:
    """What is given for a parameter; None where nothing is. Raises NoPatch where that is not known."""
    found = next((each.value for each in call.keywords if each.arg == name), None)
    if found is not None:
        return found
    if name not in takes and not takes_any:
        raise NoPatch(f"what is called there takes no {name}")
    if any(each.arg is None for each in call.keywords):
        raise NoPatch(f"the call is given ** of something, which may hold {name}")
    if any(isinstance(each, ast.Starred) for each in call.args):
        raise NoPatch(f"the call is given * of something, which may hold {name}")
    by_place = dict(zip(takes, call.args, strict=False))
    return by_place.get(name)


def _does_more(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return called not in _ONLY_GIVES and not (called == _LOOKS_UP and node.args)
    return isinstance(node, _DOES_MORE)


def _written(value: PlainValue) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else repr(value)


def _span(source: ScriptSource, node: ast.expr | ast.keyword) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return source.offset(node.lineno, node.col_offset), source.offset(node.end_lineno, node.end_col_offset)


def _inserted(source: ScriptSource, call: ast.Call, arguments: Sequence[str]) -> list[_Splice]:
    """New arguments behind the last one: on lines of their own where that has one and the call ends below it."""
    text, close = source.text, _span(source, call)[1] - 1
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if not given:
        return [_Splice(close, close, ", ".join(arguments))]
    begin, end = max(_span(source, each) for each in given)
    if end > close:
        raise NoPatch("its argument is a generator without parentheses of its own")
    end, comma = _after(text, end, close)
    line = text.rfind("\n", 0, begin) + 1
    indent = text[line:begin]
    if indent.strip() or "\n" not in text[max(end, comma or 0) : close]:
        return [_Splice(end, end, "".join(f", {each}" for each in arguments))] if comma is None else [_after_comma(comma, arguments)]
    below = text.index("\n", max(end, comma or 0))
    newline = "\r\n" if text[below - 1] == "\r" else "\n"
    below -= len(newline) - 1
    lines = f",{newline}{indent}".join(arguments) + ("" if comma is None else ",")
    splices = [_Splice(below, below, f"{newline}{indent}{lines}")]
    return splices if comma is not None else [_Splice(end, end, ","), *splices]


def _after_comma(comma: int, arguments: Sequence[str]) -> _Splice:
    return _Splice(comma + 1, comma + 1, "".join(f" {each}," for each in arguments))


def _after(text: str, at: int, close: int) -> tuple[int, int | None]:
    """Where the last argument ends, with the parentheses around it, and where the comma behind it stands, if any."""
    end, comma = at, None
    while at < close:
        if text[at] == "#":
            at = text.index("\n", at)
        elif text[at] == ")":
            end = at + 1
        elif text[at] == ",":
            comma = at
        at += 1
    return end, comma


def _check(source: ScriptSource, call: ast.Call, changes: Mapping[str, PlainValue], takes: Sequence[str], text: str) -> None:
    """Raises NoPatch where the new text is not the old one with just these arguments: what nobody thought of is not to be in a patch."""
    wanted = copy.deepcopy(source.tree, {id(call): _changed(call, changes, takes)})
    try:
        found = ast.dump(parsed(text))
    except (SyntaxError, ValueError):
        found = ""
    if found != ast.dump(wanted):
        raise NoPatch("the call is written in a way that its arguments cannot be changed one by one")


def _changed(call: ast.Call, changes: Mapping[str, PlainValue], takes: Sequence[str]) -> ast.Call:
    left = dict(changes)
    by_place = [
        ast.Constant(left.pop(name)) if name in left and index < len(call.args) else None
        for index, name in enumerate([*takes, *[""] * len(call.args)][: len(call.args)])
    ]
    args = [each if new is None else new for each, new in zip(call.args, by_place, strict=True)]
    keywords = [ast.keyword(each.arg, ast.Constant(left.pop(each.arg)) if each.arg in left else each.value) for each in call.keywords]
    return ast.Call(call.func, args, [*keywords, *(ast.keyword(name, ast.Constant(value)) for name, value in left.items())])
