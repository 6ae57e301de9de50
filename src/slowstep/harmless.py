"""Text of others (names of files, functions and ranges, arguments) as it can be kept and shown: what is no letter stands as its escape."""

from __future__ import annotations

import re
import shlex
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

# Control characters, formats (directions of writing, joiners), surrogates, and what ends a line: terminals and pages obey them.
_OBEYED: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def harmless(text: str, *, lines: bool = False) -> str:
    """The text with escapes (`\\x1b`, `\\u202e`) in the place of what a terminal or a page would obey; with `lines` its line ends stand."""
    if text.isprintable():
        return text
    text = _decoded(text)
    return "".join(_shown(each) if unicodedata.category(each) in _OBEYED and not (lines and each == "\n") else each for each in text)


def without_surrogates(value: Any) -> Any:
    """The same value (of JSON) with escapes in the place of surrogates: no table holds these, and no file in UTF-8.

    A byte of a name that is not UTF-8, which Python reads as a surrogate, stands as that byte: `\\xfc`.
    """
    if isinstance(value, str):
        return _SURROGATE.sub(lambda found: _shown(found[0]), _decoded(value))
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


def for_shell(words: Iterable[str]) -> str:
    """The words as they can be pasted into bash: what a terminal obeys or the locale cannot write is bytes in `$'...'`."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    pieces = [character if _can_be_typed(character) else _as_bytes(character) for character in word]
    if pieces == list(word):
        return shlex.quote(word)
    escaped = ("\\" + piece if piece in ("\\", "'") else piece for piece in pieces)
    return f"$'{''.join(escaped)}'"


def _can_be_typed(character: str) -> bool:
    if character.isascii():
        return character.isprintable()
    try:
        character.encode(sys.getfilesystemencoding())
    except UnicodeEncodeError:
        return False
    return unicodedata.category(character) not in _OBEYED


def _as_bytes(character: str) -> str:
    code = ord(character)
    # No file has a name with any other surrogate: its bytes are nobody's.
    of_name = "surrogateescape" if 0xDC80 <= code <= 0xDCFF else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", of_name))


def _decoded(text: str) -> str:
    """The text with the characters in it that are UTF-8, and that Python kept as bytes because the locale is another."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text


def _shown(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # https://peps.python.org/pep-0383/
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
