"""`slowstep explain [NAME]`: what a rule sees and how its gain is predicted, or what a lever changes and how that is undone."""

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
from slowstep.report.canvas import Canvas, fitting
from slowstep.report.streams import width_of

if TYPE_CHECKING:
    from types import ModuleType

RULES: Final = "slowstep.diagnosis.rules"
LEVERS: Final = "slowstep.levers"
HEADINGS: Final = ("What it sees", "Why it costs", "How the gain is predicted", "When it is wrong", "What to try")
LEVER_HEADINGS: Final = ("What it changes", "What it answers", "When it has no meaning", "How it is undone")
_HEADING: Final = re.compile(rf"^[*#\s]*({'|'.join((*HEADINGS, *LEVER_HEADINGS))})[*:.]*[ \t]*$\n?", re.MULTILINE)
_LIST: Final = re.compile(r"[-*] ")
_ITEMS: Final = re.compile(r"\n(?=[-*] )")
_HANG: Final = 2


def explain(
    name: Annotated[
        str | None, typer.Argument(help="A rule or a lever, such as serial-loader or workers. Without it, all are listed.")
    ] = None,
) -> None:
    """Explain a rule (what it sees, how its gain is predicted, when it is wrong) or a lever of `slowstep prove`."""
    rules, levers = rule_texts(), lever_texts()
    width = fitting(width_of(sys.stdout))
    if name is None:
        sys.stdout.write(listing({"Rules": rules, "Levers": levers}, width))
        return
    known = chosen(name, rules | levers)
    sys.stdout.write(page(known, (rules | levers)[known], width))


def rule_texts() -> dict[str, str]:
    """The docstring of every rule by the rule's name. Raises DiscoveryError for a broken rule file."""
    return {name: _docstring(f"{RULES}.{_file(name)}", rule) for name, rule in discover(RULES, "RULE").items()}


def lever_texts() -> dict[str, str]:
    """The docstring of every lever by the lever's name. Raises DiscoveryError for a broken lever file."""
    return {name: _docstring(f"{LEVERS}.{_file(name)}", lever) for name, lever in discover(LEVERS, "LEVER").items()}


def listing(kinds: dict[str, dict[str, str]], width: int) -> str:
    """All of them, with what each is about, by kind."""
    cells = max((len(name) for texts in kinds.values() for name in texts), default=0)
    canvas = Canvas(width=width)
    in_columns = width >= 2 * cells
    for kind, texts in kinds.items():
        canvas.line(kind)
        for name, text in texts.items():
            canvas.prose(_first_line(text), label=f"{name.ljust(cells if in_columns else 0)} ", hang=None if in_columns else _HANG)
        canvas.blank()
    canvas.prose("slowstep explain NAME tells more about one.")
    return canvas.text(color=False)


def chosen(name: str, texts: dict[str, str]) -> str:
    """The name that is meant. Raises BadUsage with the closest ones for one that does not exist."""
    wanted = name.strip().lower().replace("_", "-").partition("=")[0]
    if wanted in texts:
        return wanted
    close = difflib.get_close_matches(wanted, texts, n=3, cutoff=0.5) or [known for known in texts if wanted and wanted in known]
    hint = f"Did you mean {' or '.join(close)}?" if close else "slowstep explain lists them all."
    raise BadUsage(f"No rule or lever is called {name!r}. {hint}")


def page(name: str, text: str, width: int) -> str:
    """A docstring as a page: its name, its first sentences, and the headed sections."""
    opening, *rest = _HEADING.split(text.strip())
    blocks = [f"{name}\n{'=' * len(name)}", *_paragraphs(opening, width)]
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        first, *others = _paragraphs(body, width) or ["-"]
        blocks += [f"{heading.upper()}\n{first}", *others]
    return "\n\n".join(blocks) + "\n"


def _paragraphs(text: str, width: int) -> list[str]:
    """The paragraphs of a text, and the items of its lists, filled to the width."""
    paragraphs = [textwrap.dedent(paragraph).strip() for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text))]
    return [_filled(paragraph, width) for paragraph in paragraphs if paragraph]


def _filled(paragraph: str, width: int) -> str:
    canvas = Canvas(width=width)
    for item in _ITEMS.split(paragraph) if _LIST.match(paragraph) else [paragraph]:
        canvas.prose(" ".join(item.split()), hang=_HANG if _LIST.match(item) else 0)
    return canvas.text(color=False).rstrip()


def _docstring(module: str, plugin: object) -> str:
    """A plug-in's own docstring where it has one with the headings, else its module's."""
    for holder in (plugin, _module_of(plugin), sys.modules.get(module)):
        text = inspect.cleandoc(getattr(holder, "__doc__", None) or "")
        if _HEADING.search(text):
            return text
    return "There is no description."


def _module_of(plugin: object) -> ModuleType | None:
    work = getattr(plugin, "judge", None) or getattr(plugin, "prepare", None) or plugin
    return sys.modules.get(getattr(work, "__module__", ""))


def _file(name: str) -> str:
    return name.replace("-", "_")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
