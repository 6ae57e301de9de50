"""README.md, its tables filled in: what was measured stands there as it stands in the pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A table stands between two comments, which a reader of the page does not see.
BLOCK = re.compile(r"(<!-- (\w+): made by tools/pages.py -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def page() -> str:
    """README.md as it should be."""
    return BLOCK.sub(lambda found: found[1] + TABLES[found[2]]() + found[4], (ROOT / "README.md").read_text(encoding="utf-8"))


def accuracy() -> str:
    """The gate, and the trainings that nobody here wrote, as docs/accuracy.md has them."""
    gate, unseen = _tables(ROOT / "docs" / "accuracy.md")[:2]
    rows = [f"| {what} | {measured} | - |" for what, measured, *_ in gate[1:]]
    rows += [f"| {what} | - | {measured} |" for what, measured in unseen[1:]]
    return "\n".join(["| | problems it was built from | trainings nobody here wrote |", "| --- | --- | --- |", *rows]) + "\n"


def overhead() -> str:
    """The limits and what was measured, as docs/overhead.md has them."""
    head, *rows = _tables(ROOT / "docs" / "overhead.md")[0]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)) + "\n"


def _tables(page: Path) -> list[list[list[str]]]:
    """The tables of a page: rows of cells, without the line below their head."""
    blocks = re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [[_cells(line) for number, line in enumerate(block.splitlines()) if number != 1] for block in blocks]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


TABLES: dict[str, Callable[[], str]] = {"accuracy": accuracy, "overhead": overhead}
