"""Help texts on a terminal on which typer's own, of 50 cells or more, would be broken by the terminal: in the middle of words."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from typing import Any, Final

import typer

from slowstep.report.streams import width_of

# Of typer carried along, no class but that of contexts has a public name. A page is no narrower than this and two cells of margin.
_Page: Final[Any] = typer.Context.formatter_class
_NARROWEST_OF_TYPER: Final = 50
_MARGIN: Final = 2
# Names up to this stand beside what is said of them, longer ones above it.
_NAME_CELLS: Final = 8
_HANG: Final = "    "
# What typer does not wrap begins with this.
_AS_IT_IS: Final = "\b\n"


class NarrowPage(_Page):  # type: ignore[misc]  # its class has no public name
    """A page of less than 50 cells."""

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = _NAME_CELLS, col_spacing: int = 2) -> None:
        """Write names with what is said of them."""
        super().write_dl(rows, col_max=_NAME_CELLS, col_spacing=col_spacing)

    def write_text(self, text: str) -> None:
        """Write paragraphs; of examples each line by itself, what it is about below it."""
        for number, paragraph in enumerate(text.strip().split("\n\n")):
            self.write("\n" * bool(number))
            if paragraph.startswith(_AS_IT_IS):
                self._write_lines(paragraph.removeprefix(_AS_IT_IS).splitlines())
            else:
                super().write_text(paragraph)

    def _write_lines(self, lines: Sequence[str]) -> None:
        if not any(line.startswith(" ") for line in lines):
            # Sentences that are broken for a wider page.
            lines = [" ".join(lines)]
        for line in lines:
            indent = " " * (self.current_indent + len(line) - len(line.lstrip()))
            command, _, about = line.strip().partition("  ")
            self._write_wrapped(command, indent, indent + _HANG * line.startswith(" "))
            self._write_wrapped(about.strip(), indent + _HANG, indent + _HANG)

    def _write_wrapped(self, text: str, first: str, rest: str) -> None:
        for row in textwrap.wrap(text, self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
            self.write(f"{row}\n")


class NarrowContext(typer.Context):
    """A command whose help is such a page."""

    formatter_class = NarrowPage


def narrow_width() -> int | None:
    """How wide help is where typer's own would not fit; None where it does. No page is narrower than a report's."""
    width = width_of(sys.stdout)
    if width >= _NARROWEST_OF_TYPER + _MARGIN:
        return None
    # Imported here: it takes a while, and is needed on such terminals only.
    from slowstep.report.canvas import fitting

    return fitting(width)


def made_narrow(command: Any) -> Any:
    """A command, and those in it, whose help has narrow pages."""
    command.context_class = NarrowContext
    for inner in getattr(command, "commands", {}).values():
        made_narrow(inner)
    return command
