"""A page of fixed width: lines of styled text that are wrapped, aligned and cut where they do not fit."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from slowstep.harmless import harmless

# A page is never narrower or wider than this: there is no reading it.
_NARROWEST: Final = 40
_WIDEST: Final = 120
# A page on which there is no room for columns of words.
NARROW: Final = 60
_NARROW_HANG: Final = 2
# Joins words that belong on one line.
NBSP: Final = "\u00a0"
# Stands between clauses: a separator where the next one is on the same row, and nothing where it begins another.
_BETWEEN: Final = "\x1f"
# A number and its unit are one word: "42.1 ms" is never broken.
_NUMBER_AND_UNIT: Final = re.compile(r"(?<=\d) (?=(?:ns|us|ms|s|min|h|%|x|B|[KMGTP]iB|cores?|steps?|samples?|batches|workers?)\b|%)")
# A file with a line in it, at the end of a name: "save (train.py:10)". What was cut before it shows whether there was a folder.
_PLACE: Final = re.compile(r"(?: ?\()?[^\s/()]+\.\w+:\d+\)?$")
# The same in a word that is broken, with what ends the clause.
_FILE_AND_LINE: Final = re.compile(r"\(?[\w-]+(?:\.[\w-]+)+:\d+\)?[,;:.]?$")
# Behind which a word that is wider than a row is broken, the best first: where words were joined, behind a folder, before arguments, ...
_JOINTS: Final = (NBSP, "/", "(", ".", ",=", "_:<-")
# So much of a row is filled before it is broken at a joint, where there is another one.
_LEAST_KEPT: Final = 0.3
_ASCII_FOR: Final = str.maketrans(
    {"…": "...", "·": "-", "\N{MULTIPLICATION SIGN}": "x", "\N{EN DASH}": "-", "\N{EM DASH}": "-", "\N{RIGHT SINGLE QUOTATION MARK}": "'"}
    | {"→": "->", "±": "+-", "≥": ">=", "≤": "<=", "\N{MICRO SIGN}": "u"}
)

# Lines of a chart must not be wrapped by a notebook, and its bars need a font whose cells are all of one width.
_HTML: Final = (
    "<pre style=\"white-space:pre;overflow-x:auto;line-height:1.2;font-family:Menlo,'DejaVu Sans Mono',Consolas,monospace\">{code}</pre>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters that a terminal can show. `eighths` are the ends of a bar, thinnest first."""

    ellipsis: str
    separator: str
    bar: str
    eighths: tuple[str, ...]


UNICODE: Final = Glyphs(ellipsis="…", separator=" · ", bar="█", eighths=("▏", "▎", "▍", "▌", "▋", "▊", "▉"))
ASCII: Final = Glyphs(ellipsis="...", separator=" | ", bar="#", eighths=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """A growing page, `width` cells wide."""

    width: int
    glyphs: Glyphs = UNICODE
    lines: list[Text] = field(default_factory=list)

    def line(self, *pieces: str | tuple[str, str]) -> None:
        """Add a line of plain strings and (string, style) pairs, as it is but for what a terminal would obey."""
        self.lines.append(
            Text.assemble(*(harmless(piece) if isinstance(piece, str) else (harmless(piece[0]), piece[1]) for piece in pieces))
        )

    def blank(self) -> None:
        """Add an empty line."""
        self.lines.append(Text())

    def prose(
        self, text: str, *, label: str = "", label_style: str = "bold", style: str = "", indent: int = 0, hang: int | None = None
    ) -> None:
        """Add wrapped text, or `clauses`, behind an optional label; further lines begin `hang` cells in, where the text began if None (on a
        narrow page a little in).
        """
        first = " " * indent + (f"{label} " if label else "")
        begins = min(indent + _NARROW_HANG, cell_len(first)) if self.width < NARROW else cell_len(first)
        rest = " " * (begins if hang is None else hang)
        for number, row in enumerate(self._wrapped(text, cell_len(first), len(rest))):
            if number:
                self.line(rest, (row, style))
            else:
                self.line(first[:indent], (first[indent:], label_style), (row, style))

    def flow(self, *pieces: tuple[str, str]) -> None:
        """Add (string, style) pairs one behind the other; what does not fit begins a further line, a little indented."""
        row: list[str | tuple[str, str]] = []
        taken = 0
        for text, style in pieces:
            if row and taken + cell_len(text) > self.width:
                self.line(*row)
                row, taken, text = ["  "], 2, text.lstrip()
            row.append((text, style))
            taken += cell_len(text)
        self.line(*row)

    def edges(self, left: list[tuple[str, str]], right: list[tuple[str, str]]) -> None:
        """Add a line with text at both margins; the left text is cut where they would meet."""
        room = self.width - sum(cell_len(text) for text, _ in right) - 2
        pieces: list[tuple[str, str]] = []
        for text, style in left:
            pieces.append((self.cut(text, room), style))
            room -= cell_len(pieces[-1][0])
        self.line(*pieces, " " * (room + 2), *right)

    def cut(self, text: str, room: int) -> str:
        """The text in at most `room` cells, its middle left out: of a path the end says most, and a file with its line stays whole."""
        if cell_len(text) <= room:
            return text
        kept = room - cell_len(self.glyphs.ellipsis)
        if kept < 2:
            return text[: max(room, 0)]
        place = _PLACE.search(text)
        if place is not None and cell_len(place[0]) < kept:
            return _first_cells(text, kept - cell_len(place[0])) + self.glyphs.ellipsis + place[0]
        head = kept // 3
        return _first_cells(text, head) + self.glyphs.ellipsis + _first_cells(text[::-1], kept - head)[::-1]

    def text(self, *, color: bool) -> str:
        """The page as a string, with ANSI colours or none."""
        stream = io.StringIO()
        self._print_to(stream, color=color)
        return stream.getvalue()

    def html(self) -> str:
        """The page as a `<pre>` whose styles stand in it."""
        console = self._print_to(io.StringIO(), color=True, record=True)
        return console.export_html(inline_styles=True, code_format=_HTML)

    def _print_to(self, stream: io.StringIO, *, color: bool, record: bool = False) -> Console:
        console = Console(
            file=stream,
            width=self.width,
            color_system="standard" if color else None,
            force_terminal=color,
            no_color=False,
            legacy_windows=False,
            record=record,
            # In a notebook rich would show every line as an output of its own.
            force_jupyter=False,
        )
        for line in self.lines:
            line.rstrip()
            console.print(line, no_wrap=True, overflow="ignore", crop=False, highlight=False)
        return console

    def _wrapped(self, text: str, first: int, rest: int) -> list[str]:
        """Rows that fill the page, the first beginning `first` cells in and the others `rest`."""
        rows, joint = [""], " "
        for word in _NUMBER_AND_UNIT.sub(NBSP, text).split(" "):
            if word == _BETWEEN:
                joint = self.glyphs.separator
                continue
            # Behind a label the first row begins with what stands between it and the text.
            grown = f"{rows[-1]}{joint}{word}" if rows[-1] or (first and len(rows) == 1) else word
            if cell_len(grown.lstrip(" ")) <= self.width - (first if len(rows) == 1 else rest):
                rows[-1] = grown.lstrip(" ")
            else:
                rows += _pieces(word, self.width - rest)
            joint = " "
        return [row.replace(NBSP, " ") for row in rows]


def clauses(texts: Iterable[str], *, behind_label: bool = False) -> str:
    """Texts as one for `Canvas.prose`, with separators between those on a row, and none at the end of one; `behind_label`: one before."""
    return f" {_BETWEEN} ".join(["", *texts] if behind_label else texts).lstrip(" ")


def fitting(width: int) -> int:
    """How wide a page is on a terminal of so many cells: 40 to 120."""
    return min(max(width, _NARROWEST), _WIDEST)


def _pieces(word: str, room: int) -> list[str]:
    """A word that is wider than a row, in pieces."""
    pieces = []
    while word:
        piece = _first_cells(word, room)
        pieces.append(piece if len(piece) == len(word) else piece[: _break_in(piece, word)])
        word = word[len(pieces[-1]) :]
    return pieces


def _break_in(piece: str, word: str) -> int:
    """How much of the piece that has room is kept on its row: what ends where names have their joints, and before a file with its line."""
    place = _FILE_AND_LINE.search(word)
    end = place.start() if place is not None and 0 < place.start() < len(piece) and cell_len(place[0]) <= len(piece) else len(piece)
    ends = [max(piece.rfind(joint, 1, end) for joint in joints) + 1 for joints in _JOINTS]
    enough = [each for each in ends if each >= _LEAST_KEPT * len(piece)]
    return next(iter(enough), max(ends)) or end


def _first_cells(text: str, room: int) -> str:
    taken = ""
    for character in text:
        if cell_len(taken + character) > room:
            break
        taken += character
    return taken


def printable(value: Any, glyphs: Glyphs, *, but: tuple[str, ...] = ()) -> Any:
    """The document with every string safe to print: nothing that a terminal or a page obeys, plain ASCII where asked for. What the keys in
    `but` lead to is left as it is.
    """
    if isinstance(value, str):
        return _printable_text(value, ascii_only=glyphs is ASCII)
    if isinstance(value, dict):
        return {key: item if but == (key,) else printable(item, glyphs, but=_below(key, but)) for key, item in value.items()}
    if isinstance(value, list):
        return [printable(item, glyphs) for item in value]
    return value


def _below(key: str, way: tuple[str, ...]) -> tuple[str, ...]:
    return way[1:] if way[:1] == (key,) else ()


def _printable_text(text: str, *, ascii_only: bool) -> str:
    safe = harmless(" ".join(text.split()))
    return safe.translate(_ASCII_FOR).encode("ascii", "replace").decode() if ascii_only else safe
