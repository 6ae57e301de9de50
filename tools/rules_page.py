"""docs/rules.md: what each rule finds, by stage, from the first sentences of their docstrings."""

from __future__ import annotations

from slowstep.analyses.measure_recording import MAKERS as RECORDED
from slowstep.analyses.measure_trace import MAKERS as TRACED
from slowstep.cli.plugin_texts import RULES, folder_of_rule, rule_text
from slowstep.diagnosis.rule import Rule
from slowstep.registry import discover
from slowstep.stages import STAGE_MEANING, STAGES

# In the place of a stage, for rules that may blame any of them.
ANY = "any stage"
BEGINNING = """# Rules

Generated from the rules' own docstrings by `python tools/pages.py`; a test holds it against them. `slowstep explain NAME` prints one in
full: what it sees, how its gain is predicted, when it is wrong, what to try.

A rule answers with a finding, with "looked, and clean", or with why it cannot judge. Each stands below the first stage that it may blame,
one that may blame them all at the end; its link leads to its file, in the folder of what it is about.
*recording*: it judges what `slowstep run` recorded; *trace*: it judges a profiler's trace; *advice*: it claims no time and never decides
the verdict. What it *reads* are topics, attributes of `Measurements` in `src/slowstep/analyses/measurements.py`: the class that is named
there has the fields, with units and meaning; after a semicolon, those of the one or the other evidence. Which reading of the machine is in
which, says [monitors.md](monitors.md).
"""


def page() -> str:
    """The text of the page: a table for each stage, and one of the rules that may blame any."""
    rules: dict[str, Rule] = discover(RULES, "RULE", in_folders=True)
    texts = {name: rule_text(name) for name in rules}
    meanings = {**STAGE_MEANING, ANY: "what a rule blames is whatever it finds the time in"}
    return BEGINNING + "".join(_table(stage, meaning, rules, texts) for stage, meaning in meanings.items())


def _table(stage: str, meaning: str, rules: dict[str, Rule], texts: dict[str, str]) -> str:
    rows = [
        f"| {_link(name)} | {_first_line(texts[name])} | {_judges(rule)} | {_reads(rule)} |\n"
        for name, rule in rules.items()
        if _first_stage(rule) == stage
    ]
    if not rows:
        return ""
    return f"\n## {stage}\n\n{meaning.capitalize()}.\n\n| rule | what it finds | judges | reads |\n| --- | --- | --- | --- |\n" + "".join(
        rows
    )


def _first_stage(rule: Rule) -> str:
    return ANY if set(rule.stages) >= set(STAGES) else rule.stages[0]


def _link(name: str) -> str:
    return f"[`{name}`](../src/slowstep/diagnosis/rules/{folder_of_rule(name)}/{name.replace('-', '_')}.py)"


def _first_line(text: str) -> str:
    # A table's cells end at a bar.
    return text.strip().splitlines()[0].replace("|", "\\|")


def _judges(rule: Rule) -> str:
    reads = [{*rule.topics, *more} for more in _more(rule)]
    kinds = {kind: any(there >= each for each in reads) for kind, there in (("recording", RECORDED.keys()), ("trace", TRACED.keys()))}
    return ", ".join(kind for kind, does in {**kinds, "advice": rule.advisory}.items() if does)


def _reads(rule: Rule) -> str:
    """The rule's own topics, and those of whoever provides its evidence."""
    return ", ".join(sorted(rule.topics)) + ("; " if rule.providers else "") + " or ".join(map(", ".join, map(sorted, _more(rule))))


def _more(rule: Rule) -> list[tuple[str, ...]]:
    return [provider.topics for provider in rule.providers] or [()]
