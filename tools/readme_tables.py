"""README.md, its tables filled in: what was measured stands there as it stands in the pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Sections of docs/accuracy.md.
WILD, UNSEEN = "Trainings re-enacted from public reports", "Trainings that others wrote, 2026-11-27"
GATE = "The gate: slowstep's own suite"
LEFT_OUT = ("gain told", "no report: the diagnosis failed")
# A table stands between two comments, which a reader of the page does not see.
BLOCK = re.compile(r"(<!-- (\w+): made by tools/pages.py -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def page() -> str:
    """README.md as it should be."""
    return BLOCK.sub(lambda found: found[1] + TABLES[found[2]]() + found[4], (ROOT / "README.md").read_text(encoding="utf-8"))


def accuracy() -> str:
    """What was said of trainings that others wrote, of public reports, and of what it was built from, as docs/accuracy.md has them."""
    tables = [_table_below(ROOT / "docs" / "accuracy.md", heading) for heading in (UNSEEN, WILD, GATE)]
    heads = [
        "",
        "trainings that others wrote",
        *(f"re-enacted public reports, {head}" for head in tables[1][0][1:]),
        "problems it was built from",
    ]
    columns = [{row[0]: row[number] for row in table[1:]} for table in tables[:2] for number in range(1, len(table[0]))]
    columns.append({what: measured for what, measured, *_ in tables[2][1:]})
    whats = [what for what in dict.fromkeys(what for column in columns for what in column) if what not in LEFT_OUT]
    rows = [[what, *(column.get(what, "-") for column in columns)] for what in whats]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)) + "\n"


def overhead() -> str:
    """The limits and what was measured, as docs/overhead.md has them."""
    head, *rows = _tables((ROOT / "docs" / "overhead.md").read_text(encoding="utf-8"))[0]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)) + "\n"


def _table_below(page: Path, heading: str) -> list[list[str]]:
    return _tables(page.read_text(encoding="utf-8").split(f"\n## {heading}\n", 1)[1])[0]


def _tables(page: str) -> list[list[list[str]]]:
    """The tables of a page: rows of cells, without the line below their head."""
    blocks = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    return [[_cells(line) for number, line in enumerate(block.splitlines()) if number != 1] for block in blocks]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


TABLES: dict[str, Callable[[], str]] = {"accuracy": accuracy, "overhead": overhead}
