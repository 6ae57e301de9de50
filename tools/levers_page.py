"""docs/levers.md, made from the docstrings of the levers."""

from __future__ import annotations

import re
import textwrap

from slowstep.cli.explain import LEVER_HEADINGS
from slowstep.cli.plugin_texts import lever_text
from slowstep.frameworks._known import all_words
from slowstep.record.experiment.implementations import implementations, known_levers
from slowstep.record.experiment.lever import DEMAND, NUMERICS, ORDER, Lever

BEGINNING = """# Levers

Generated from the levers' own docstrings by `python tools/pages.py`; a test holds it against them. `slowstep explain NAME` prints one.
A lever is a change that `slowstep prove --levers` makes to an unmodified training from outside, and undoes; a file each, in
`src/slowstep/levers/` or, where one framework alone has it, in that one's `inside/levers/`.

| lever | on the command line | made for | changes beside the time |
| --- | --- | --- | --- |
"""
CHANGES = {
    NUMERICS: "numerics",
    ORDER: "which data come, or their order (throughput only)",
    DEMAND: "how many cores or threads are asked for",
}
_HEADING = re.compile(rf"^({'|'.join(LEVER_HEADINGS)}):$\n?", re.MULTILINE)


def page() -> str:
    """The text of the page."""
    levers = known_levers()
    rows = [f"| [{name}](#{name}) | `{_usage(lever)}` | {_made_for(lever)} | {_changes(lever)} |\n" for name, lever in levers.items()]
    return BEGINNING + "".join(rows) + "".join(_section(name, lever_text(name)) for name in levers)


def _usage(lever: Lever) -> str:
    value = "" if lever.takes is None else f"[={lever.takes}]" if lever.takes_optional else f"={lever.takes}"
    # A table's cells end at a bar.
    return f"{lever.name}{value}{'[:every=K]' if lever.every else ''}".replace("|", "\\|")


def _made_for(lever: Lever) -> str:
    """The frameworks that make its change, or all of them where Python does."""
    titles = sorted(all_words()[framework].title for framework in implementations(lever.name))
    return "all" if lever.prepare is not None else ", ".join(titles)


def _changes(lever: Lever) -> str:
    return ", ".join(text for kind, text in CHANGES.items() if kind in lever.changes) or "-"


def _section(name: str, text: str) -> str:
    opening, *rest = _HEADING.split(text)
    paragraphs = [" ".join(opening.split())]
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        paragraphs.append(f"*{heading}*: {' '.join(textwrap.dedent(body).split())}")
    return f"\n## {name}\n\n" + "\n\n".join(paragraphs) + "\n"
