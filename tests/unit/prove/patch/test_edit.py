"""Arguments of one call are changed, and everything else of a source stays as it is written."""

from __future__ import annotations

import ast

import pytest

from slowstep.prove.patch.edit import edited
from slowstep.prove.patch.source import NoPatch, read_source

TAKES = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "persistent_workers")


def changed(text: str | bytes, *, takes_any: bool = False) -> bytes:
    """With two workers that stay, in the one call of a DataLoader."""
    source = read_source(text if isinstance(text, bytes) else text.encode())
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    (call,) = (each for each in calls if ast.unparse(each.func) == "DataLoader")
    changes = {"num_workers": 2, "persistent_workers": True}
    return source.encoded(edited(source, call, changes, TAKES, takes_any=takes_any))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = DataLoader()", "x = DataLoader({new})"),
        ("x = DataLoader(a, 4)  # c\n", "x = DataLoader(a, 4, {new})  # c\n"),
        ("x = f(DataLoader(é, b,), 'ü')", "x = f(DataLoader(é, b, {new},), 'ü')"),
        ("x = DataLoader(a, b=(lambda c: c))", "x = DataLoader(a, b=(lambda c: c), {new})"),
        ("x = DataLoader(((a) ) ,)", "x = DataLoader(((a) ) , {new},)"),
        ("x = DataLoader((a))", "x = DataLoader((a), {new})"),
        ("x = DataLoader(\n    a,\n    b=1,  # c\n)\n", "x = DataLoader(\n    a,\n    b=1,  # c\n    {n},\n    {p},\n)\n"),
        ("x = DataLoader(\n\ta,\n\tb=1 # c, )\n)", "x = DataLoader(\n\ta,\n\tb=1, # c, )\n\t{n},\n\t{p}\n)"),
        ("x = DataLoader(\r\n  a,\r\n)\r\n", "x = DataLoader(\r\n  a,\r\n  {n},\r\n  {p},\r\n)\r\n"),
        ("x = DataLoader(a,\n               b=1)", "x = DataLoader(a,\n               b=1, {new})"),
        ("x = DataLoader(\n    a, b=1,\n)\n", "x = DataLoader(\n    a, b=1, {new},\n)\n"),
        ("x = DataLoader(\n    a, \\\n)\n", "x = DataLoader(\n    a, \\\n    {n},\n    {p},\n)\n"),
        ("x = DataLoader(a, num_workers=0)", "x = DataLoader(a, num_workers=2, {p})"),
        ("x = DataLoader(a, num_workers=(0 if b\n else 1), c=1)", "x = DataLoader(a, num_workers=(2), c=1, {p})"),
        ("x = DataLoader(a, num_workers=n, {p}, **more)", "x = DataLoader(a, num_workers=2, {p}, **more)"),
        ("x = DataLoader(a, 1, True, None, None, n)", "x = DataLoader(a, 1, True, None, None, 2, {p})"),
        ("x = [DataLoader(a) for a in b]", "x = [DataLoader(a, {new}) for a in b]"),
        ("with c: x = DataLoader(\n  *[], **{{}}, num_workers=1, {p})", "with c: x = DataLoader(\n  *[], **{{}}, num_workers=2, {p})"),
    ],
)
def test_what_is_new_stands_as_its_neighbours_do(before: str, after: str) -> None:
    words = {"n": "num_workers=2", "p": "persistent_workers=True", "new": "num_workers=2, persistent_workers=True"}

    assert changed(before.format(**words)) == after.format(**words).encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b"# -*- coding: latin-1 -*-\nx = '\xe9', DataLoader('\xfc')\n",
            b"# -*- coding: latin-1 -*-\nx = '\xe9', DataLoader('\xfc', NEW)\n",
        ),
        (b"\xef\xbb\xbfx = DataLoader('\xc3\xbc')", b"\xef\xbb\xbfx = DataLoader('\xc3\xbc', NEW)"),
    ],
    ids=["in an encoding of its own", "with a byte order mark"],
)
def test_a_file_keeps_its_encoding(before: bytes, after: bytes) -> None:
    assert changed(before) == after.replace(b"NEW", b"num_workers=2, persistent_workers=True")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = DataLoader(a, **more)", r"\*\* of something, which may hold num_workers"),
        ("x = DataLoader(a, num_workers=1, **more)", r"\*\* of something, which may hold persistent_workers"),
        ("x = DataLoader(*a)", r"\* of something, which may hold num_workers"),
        ("x = DataLoader(a for a in b)", "a generator"),
        ("x = DataLoader(a, num_workers=(n := 1), persistent_workers=True)", "does more than to give a value"),
        ("x = DataLoader(a, num_workers=c.pop('w', 1), persistent_workers=True, **c)", "does more than to give a value"),
        ("x = DataLoader(a, num_workers=q.get(), persistent_workers=True)", "does more than to give a value"),
        ("x = DataLoader(a, num_workers=int(f.readline()), persistent_workers=True)", "does more than to give a value"),
        ("x = DataLoader(a, num_workers=next(n), persistent_workers=True)", "does more than to give a value"),
        ("x = DataLoader(a, num_workers=2, persistent_workers=True)", "given that already"),
        ("x = 1\rDataLoader(a)", "carriage return"),
        ("x = DataLoader(a", "cannot be read"),
        ("x = 'é'\0", "cannot be read"),
    ],
)
def test_what_cannot_be_told_from_the_source_is_not_changed(text: str, reason: str) -> None:
    with pytest.raises(NoPatch, match=reason):
        changed(text)


@pytest.mark.parametrize(
    "given", ["c.get('w', 1)", "int(os.environ.get('W', 1))", "min(8, os.cpu_count() or 1)", "args.workers // 2", "c['w']"]
)
def test_what_is_looked_up_or_computed_is_changed(given: str) -> None:
    assert (
        changed(f"x = DataLoader(a, num_workers={given}, persistent_workers=True)")
        == b"x = DataLoader(a, num_workers=2, persistent_workers=True)"
    )


def test_what_the_call_does_not_take_is_not_given_to_it() -> None:
    source = read_source(b"x = Mine(a)")
    (call,) = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))

    with pytest.raises(NoPatch, match="takes no num_workers"):
        edited(source, call, {"num_workers": 2}, ("dataset",), takes_any=False)
    assert edited(source, call, {"num_workers": 2}, ("dataset",), takes_any=True) == "x = Mine(a, num_workers=2)"
