from __future__ import annotations

import runpy
from pathlib import Path

from slowstep.experiments.known_levers import known_levers

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_levers_is_what_their_docstrings_say():
    made = runpy.run_path(str(DOCS / "levers.py"))["page"]()

    assert made == (DOCS / "levers.md").read_text(encoding="utf-8"), "run: python docs/levers.py"


def test_every_lever_is_on_the_page():
    text = (DOCS / "levers.md").read_text(encoding="utf-8")

    assert [name for name in known_levers() if f"\n## {name}\n" not in text or f"[{name}](#{name})" not in text] == []
