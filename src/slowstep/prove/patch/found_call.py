"""Finds, in the source of a script, the call that was seen while it ran, and makes sure that what it calls is what was made."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from slowstep.prove.patch.call_place import CallPlace
from slowstep.prove.patch.source import ScriptSource

_PARTIAL = "partial"
# Names that stand for names: nobody writes a longer chain, but a script may write one that goes round.
_MOST_NAMES = 8


def find_call(source: ScriptSource, place: CallPlace) -> ast.Call | None:
    """The call at a place, if that calls one of the place's names; None where it does not, or another call there may be meant."""
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call) and _is_at(node, place)]
    meant = [call for call in calls if _is_of(call.func, place.names, source.tree)]
    return meant[0] if len(meant) == 1 else None


def _is_at(call: ast.Call, place: CallPlace) -> bool:
    """No two calls end at the same place; where a call begins the interpreter tells otherwise where it goes over several lines."""
    if place.end_line is None or place.end_column is None:
        return call.lineno == place.line
    return (call.end_lineno, call.end_col_offset) == (place.end_line, place.end_column)


def _is_of(called: ast.expr, names: Collection[str], tree: ast.Module) -> bool:
    if isinstance(called, ast.Attribute) and called.attr == "__init__":
        # Of a class named there the object itself would be the first argument.
        return isinstance(called.value, ast.Call) and isinstance(called.value.func, ast.Name) and called.value.func.id == "super"
    return _last_name(called, tree) in names


def _last_name(called: ast.expr, tree: ast.Module) -> str | None:
    """What a class is called where it is defined, by the names that the file gives it; None where that is not known."""
    for _ in range(_MOST_NAMES):
        if isinstance(called, ast.Attribute):
            return called.attr
        if not isinstance(called, ast.Name):
            return None
        bound = list(dict.fromkeys(_bindings(called.id, tree)))
        if not bound:
            return called.id
        if len(bound) > 1:
            return None
        if isinstance(bound[0], str):
            return bound[0]
        called = _class_of_partial(bound[0])
    return None


def _class_of_partial(value: ast.expr) -> ast.expr:
    """`partial(DataLoader, ...)` makes what its first argument makes, where that is all that it gives by place."""
    if isinstance(value, ast.Call) and len(value.args) == 1:
        called = value.func
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name == _PARTIAL:
            return value.args[0]
    return value


def _bindings(name: str, tree: ast.Module) -> Iterator[ast.expr | str]:
    """What a name is bound to anywhere in the file: the name of an import or of a class, a value, or an empty text for anything else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (each.name for each in node.names if (each.asname or each.name) == name)
        elif isinstance(node, ast.ClassDef) and node.name == name:
            yield name
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_name(node.targets[0], name):
            yield node.value
        elif _binds_otherwise(node, name):
            yield ""


def _binds_otherwise(node: ast.AST, name: str) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name == name
    return node.arg == name if isinstance(node, ast.arg) else False


def _is_name(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name
