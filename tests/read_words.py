"""Where code reads words: compares a text with a phrase, or looks for one in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

# Two words; of a code it is one, however many hyphens it has.
PHRASE = re.compile(r"[A-Za-z]{2,}[,:]? [A-Za-z]{2,}")
COMPARING = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
# Methods that look into a text, and into a column of them.
OF_TEXTS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "find", "index", "count"}
OF_COLUMNS = {"starts_with", "ends_with", "contains", "is_in", "strip_prefix", "strip_suffix", "eq", "eq_missing", "ne", "ne_missing"}
LOOKING = OF_TEXTS | OF_COLUMNS


def phrases_of(tree: ast.Module) -> set[str]:
    """The names of a module's constants that are a phrase, or hold one."""
    found = set()
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found |= {name} if _has_phrase(value, found) else set()
    return found


def imported_from(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """What a module takes from others of the package: their names, the name there, and that here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, each.name, each.asname or each.name) for each in node.names)


def read_words(tree: ast.AST, phrases: Collection[str]) -> Iterator[int]:
    """Lines that compare with a phrase or look for one, `phrases` being the names of some."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others) if any(isinstance(op, COMPARING) for op in ops):
                sides: list[ast.expr] = [left, *others]
            case ast.Call(func=ast.Attribute(attr=method), args=[first, *_]) if method in LOOKING:
                sides = [first]
            case ast.MatchValue(value=value):
                sides = [value]
            case _:
                continue
        if any(_has_phrase(side, phrases) for side in sides):
            yield node.value.lineno if isinstance(node, ast.MatchValue) else node.lineno


def _has_phrase(node: ast.expr, phrases: Collection[str]) -> bool:
    match node:
        case ast.Constant(value=str() as text):
            return PHRASE.search(text) is not None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in phrases
        case ast.JoinedStr(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(_has_phrase(part, phrases) for part in parts)
    return False
