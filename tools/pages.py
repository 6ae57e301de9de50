"""Writes the pages that are made from the code: `python tools/pages.py`; with `--check` it only names those that are stale."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import levers_page
import readme_tables
import report_page
import rules_page
import tables_page

ROOT = Path(__file__).parents[1]
PAGES: dict[str, Callable[[], str]] = {
    "docs/levers.md": levers_page.page,
    "docs/rules.md": rules_page.page,
    "docs/report.md": report_page.page,
    "docs/tables.md": tables_page.page,
    "docs/recording-tables.md": tables_page.recordings_page,
    "README.md": readme_tables.page,
}


def stale() -> dict[str, str]:
    """What stands in a page no longer as it is made: the page, and the text that it should have."""
    made = {name: page() for name, page in PAGES.items()}
    return {name: text for name, text in made.items() if _now(ROOT / name) != text}


def _now(page: Path) -> str | None:
    return page.read_text(encoding="utf-8") if page.exists() else None


def main() -> None:
    """Write what is stale, or only say it."""
    for name, text in stale().items():
        print(name)
        if "--check" not in sys.argv:
            (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
