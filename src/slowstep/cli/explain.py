"""`slowstep explain [NAME]`: what a rule sees, why it costs, how its gain is predicted, when it is wrong, what to try."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slowstep.errors import BadUsage
from slowstep.registry import discover
from slowstep.report.canvas import Canvas

if TYPE_CHECKING:
    from types import ModuleType

RULES: Final = "slowstep.diagnosis.rules"
HEADINGS: Final = ("What it sees", "Why it costs", "How the gain is predicted", "When it is wrong", "What to try")
_HEADING: Final = re.compile(rf"^[*#\s]*({'|'.join(HEADINGS)})[*:.]*[ \t]*$\n?", re.MULTILINE)
_LIST: Final = re.compile(r"[-*] ")


def explain(name: Annotated[str | None, typer.Argument(help="A rule, such as serial-loader. Without it, all are listed.")] = None) -> None:
    """Explain a rule: what it sees, why it costs, how its gain is predicted and when it is wrong."""
    texts = rule_texts()
    sys.stdout.write(listing(texts) if name is None else page(name, chosen(name, texts)))


def rule_texts() -> dict[str, str]:
    """The docstring of every rule by the rule's name. Raises DiscoveryError for a broken rule file."""
    return {name: _docstring(name, rule) for name, rule in discover(RULES, "RULE").items()}


def listing(texts: dict[str, str]) -> str:
    """All rules, a line each."""
    cells = max((len(name) for name in texts), default=0)
    rows = [f"{name.ljust(cells)}  {_first_line(text)}" for name, text in texts.items()]
    return "\n".join([*rows, "", "slowstep explain NAME tells more about one.", ""])


def chosen(name: str, texts: dict[str, str]) -> str:
    """The text of a rule. Raises BadUsage with the closest names for one that does not exist."""
    wanted = name.strip().lower().replace("_", "-")
    if wanted in texts:
        return texts[wanted]
    close = difflib.get_close_matches(wanted, texts, n=3, cutoff=0.5) or [known for known in texts if wanted and wanted in known]
    hint = f"Did you mean {' or '.join(close)}?" if close else f"There are {', '.join(texts)}."
    raise BadUsage(f"No rule is called {name!r}. {hint}")


def page(name: str, text: str, width: int = 88) -> str:
    """A rule's docstring as a page: its name, its first sentences, and the five headed sections."""
    opening, *rest = _HEADING.split(text.strip())
    blocks = [f"{name}\n{'=' * len(name)}", *_paragraphs(opening, width)]
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        first, *others = _paragraphs(body, width) or ["-"]
        blocks += [f"{heading.upper()}\n{first}", *others]
    return "\n\n".join(blocks) + "\n"


def _paragraphs(text: str, width: int) -> list[str]:
    """The paragraphs of a text, filled to the width; a list keeps its lines."""
    paragraphs = [textwrap.dedent(paragraph).strip() for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text))]
    return [paragraph if _LIST.match(paragraph) else _filled(paragraph, width) for paragraph in paragraphs if paragraph]


def _filled(paragraph: str, width: int) -> str:
    canvas = Canvas(width=width)
    canvas.prose(" ".join(paragraph.split()))
    return canvas.text(color=False).rstrip()


def _docstring(name: str, rule: object) -> str:
    """A rule's own docstring where it has one with the headings, else its module's."""
    for holder in (rule, _module_of(rule), _module_named(name)):
        text = inspect.cleandoc(getattr(holder, "__doc__", None) or "")
        if _HEADING.search(text):
            return text
    return "This rule has no description."


def _module_of(rule: object) -> ModuleType | None:
    judge = getattr(rule, "judge", None) or rule
    return sys.modules.get(getattr(judge, "__module__", ""))


def _module_named(name: str) -> ModuleType | None:
    return sys.modules.get(f"{RULES}.{name.replace('-', '_')}")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
