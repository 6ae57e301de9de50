"""`slowstep explain [NAME]`: what a rule sees and how its gain is predicted, or what a lever changes and how that is undone."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Final

import typer

from slowstep.cli.plugin_texts import lever_text, measured_topics, names_of_levers, names_of_rules, rule_terms, rule_text
from slowstep.cli.report_words import WORDS, meaning, rules_on, word_page
from slowstep.close_names import close_names
from slowstep.errors import BadUsage, DiscoveryError
from slowstep.harmless import for_shell
from slowstep.report.canvas import Canvas, fitting
from slowstep.report.streams import width_of
from slowstep.stages import STAGES, stage_in_words

HEADINGS: Final = ("What it sees", "Why it costs", "How the gain is predicted", "When it is wrong", "What to try")
LEVER_HEADINGS: Final = ("What it changes", "What it answers", "When it has no meaning", "How it is undone")
_GAIN: Final = "How the gain is predicted"
# What docs/definitions.md calls them.
_HAS_SYMBOLS: Final = re.compile(r"\b[rB] is\b")
_SYMBOLS: Final = (
    "Here r is what the fix removes from a step, and B what else then takes longest at the same time: where T is the mean step, "
    "the gain is T / max(T - r, B)."
)
_HEADING: Final = re.compile(rf"^[*#\s]*({'|'.join((*HEADINGS, *LEVER_HEADINGS))})[*:.]*[ \t]*$\n?", re.MULTILINE)
_LIST: Final = re.compile(r"[-*] ")
_ITEMS: Final = re.compile(r"\n(?=[-*] )")
_HANG: Final = 2
# A rule that may blame more stages than this belongs to none of them.
_FEW: Final = 2
# So many names for one that does not exist.
_OFFERED: Final = 3
_ANY_STAGE: Final = "any stage"
_KINDS: Final = ("Rules", "Rules for traces only")
_BROKEN: Final = "Rules that cannot be read"
_LEVERS: Final = "Levers: changes that slowstep prove makes to a training, by --levers"
# What measures a recording: rules that read other topics judge traces.
_RECORDED: Final = "slowstep.analyses.measure_recording"
_EXAMPLES: Final = """\b
Examples:
  slowstep explain                   all of them, by stage
  slowstep explain serial-loader     a rule
  slowstep explain workers           a lever of slowstep prove
  slowstep explain preprocess        a stage of a step
"""

Texts = Mapping[str, str]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command("explain", epilog=_EXAMPLES)
def explain(
    name: Annotated[str | None, typer.Argument(metavar="NAME", hidden=True)] = None,
) -> None:
    """Explain a rule (what it sees, how its gain is predicted, when it is wrong) or a lever of `slowstep prove`.

    NAME is a rule or a lever, or a stage, a part of one or a verdict of a report. Without it, rules and levers are listed.
    """
    width = fitting(width_of(sys.stdout))
    if name is None:
        sys.stdout.write(listing(by_stage(), width))
        return
    if (found := meaning(name)) is not None:
        word, text, is_stage = found
        sys.stdout.write(word_page(word, text, rules_on(word, names_of_rules(), _stages_of) if is_stage else (), width))
        return
    rules, levers = names_of_rules(), names_of_levers()
    known = chosen(name, [*rules, *levers], others=WORDS)
    # A problem and what tries it out may have one name.
    texts = [rule_text(known)] if known in rules else []
    texts += [lever_text(known)] if known in levers else []
    sys.stdout.write("\n".join(page(known, text, width) for text in texts))


def _stages_of(rule: str) -> Sequence[str] | None:
    """The few stages that a rule blames; None of one of any stage, and of a broken one."""
    try:
        stages = rule_terms(rule).stages
    except DiscoveryError:
        return None
    return stages if stages is not None and len(stages) <= _FEW else None


def by_stage() -> dict[str, Texts]:
    """The first lines of all rules by the stage that they blame, those that judge only traces apart, then of all levers.

    Nothing of them is imported: that takes a second.
    """
    recorded = measured_topics(_RECORDED)
    groups: dict[str, dict[str, str]] = {f"{kind}: {stage_in_words(stage)}": {} for stage in (*STAGES, _ANY_STAGE) for kind in _KINDS}
    groups |= {_BROKEN: {}, _LEVERS: {name: _text_or_broken(lever_text, name) for name in names_of_levers()}}
    for name in names_of_rules():
        groups[_group(name, recorded)][name] = _text_or_broken(rule_text, name)
    return {group: texts for group, texts in groups.items() if texts}


def _group(name: str, recorded: frozenset[str]) -> str:
    """The heading under which a rule stands."""
    try:
        stages, topics = rule_terms(name)
    except DiscoveryError:
        return _BROKEN
    stage = stages[0] if stages is not None and len(stages) <= _FEW else _ANY_STAGE
    return f"{_KINDS[not topics <= recorded]}: {stage_in_words(stage)}"


def _text_or_broken(text: Callable[[str], str], name: str) -> str:
    """Its docstring; of a broken file, that it is broken."""
    try:
        return text(name)
    except DiscoveryError:
        return f"Its file is broken: slowstep explain {name} says how."


def listing(groups: Mapping[str, Texts], width: int) -> str:
    """All of them, with what each is about, group by group; each in a line where there is room for columns."""
    cells = max((len(name) for texts in groups.values() for name in texts), default=0)
    canvas = Canvas(width=width)
    in_columns = width >= 2 * cells
    for group, texts in groups.items():
        canvas.prose(group)
        for name, text in texts.items():
            if in_columns:
                canvas.line(f"{name.ljust(cells)}  {textwrap.shorten(_first_line(text), width - cells - _HANG, placeholder=' ...')}")
            else:
                canvas.prose(_first_line(text), label=f"{name} ", hang=_HANG)
        canvas.blank()
    canvas.prose("slowstep explain NAME says more about one.")
    return canvas.text(color=False)


def chosen(name: str, known: Iterable[str], *, others: Iterable[str] = ()) -> str:
    """The name that is meant. Raises BadUsage with the closest ones, of `others` too, for one that does not exist."""
    names = list(dict.fromkeys(known))
    wanted = _spelled(name).partition("=")[0]
    if wanted in names:
        return wanted
    spelled = {_spelled(each): each for each in (*others, *names)}
    close = close_names(wanted, spelled, most=_OFFERED) or [each for each in spelled if wanted and wanted in each]
    offered = " or ".join(for_shell((spelled[each],)) for each in close[:_OFFERED])
    hint = f"Did you mean {offered}?" if offered else "slowstep explain lists rules and levers."
    raise BadUsage(f"no rule, lever, stage, part or verdict is called {name!r}. {hint}")


def _spelled(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def page(name: str, text: str, width: int) -> str:
    """A docstring as a page: its name, its first sentences, and the headed sections."""
    opening, *rest = _HEADING.split(text.strip())
    blocks = [f"{name}\n{'=' * len(name)}", *_paragraphs(opening, width)]
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        symbols = f"\n\n{_SYMBOLS}" if heading == _GAIN and _HAS_SYMBOLS.search(body) else ""
        first, *others = _paragraphs(f"{body.rstrip()}{symbols}", width) or ["-"]
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


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
