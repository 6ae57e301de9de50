"""The source of a script: its bytes as they lie on the disk, its text, its syntax tree, and where in the text a node of that begins."""

from __future__ import annotations

import ast
import codecs
import io
import tokenize
import warnings
from dataclasses import dataclass


class NoPatch(Exception):
    """No patch can be made; the message ends the sentence "no patch: ..."."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptSource:
    """`text` has its line ends as they are in the file; `mark` is the file's byte order mark, if any."""

    text: str
    tree: ast.Module
    encoding: str
    mark: bytes
    starts: tuple[int, ...]

    def offset(self, line: int, column: int) -> int:
        """Where a place of the tree is in the text: lines count from 1, columns in bytes of UTF-8 from 0."""
        start = self.starts[line - 1]
        # A character is a byte at least.
        return start + len(self.text[start : start + column].encode()[:column].decode(errors="ignore"))

    def encoded(self, text: str) -> bytes:
        """Another text in the place of this one, as the file would hold it."""
        return self.mark + text.encode(self.encoding)


def read_source(raw: bytes) -> ScriptSource:
    """Raises NoPatch where it is no Python, or has line ends that a difference by lines cannot tell."""
    mark = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0].removesuffix("-sig")
        text = raw[len(mark) :].decode(encoding)
        tree = parsed(text)
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError) as error:
        raise NoPatch(f"its source cannot be read: {error}") from error
    if text.count("\r") != text.count("\r\n"):
        raise NoPatch("lines of its source end in a carriage return alone")
    starts = (0, *(at + 1 for at, character in enumerate(text) if character == "\n"))
    return ScriptSource(text=text, tree=tree, encoding=encoding, mark=mark, starts=starts)


def parsed(text: str) -> ast.Module:
    """The tree of a text. Raises SyntaxError and its like."""
    with warnings.catch_warnings():
        # A backslash too many in a text of the user's is not for us to say.
        warnings.simplefilter("ignore")
        return ast.parse(text)
