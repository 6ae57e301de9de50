"""Pages that are made from the code, or from other pages, are what they would be if they were made now."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

from made_measurements import measurements
from slowstep.analyses.events.tables import TRACE_MEASUREMENT_TABLES
from slowstep.cli.plugin_texts import names_of_rules, rule_terms
from slowstep.record.experiment.implementations import known_levers
from slowstep.registry import discover
from slowstep.timeline.machine_tables import MACHINE_TABLES
from slowstep.timeline.schema import RECORDING_TABLES
from slowstep.timeline.trace_tables import TRACE_TABLES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_no_page_is_stale():
    said = subprocess.run([sys.executable, str(ROOT / "tools" / "pages.py"), "--check"], capture_output=True, text=True, check=True)

    assert said.stdout.split() == [], "run: python tools/pages.py"


def test_every_lever_is_on_its_page():
    text = (DOCS / "levers.md").read_text(encoding="utf-8")

    assert [name for name in known_levers() if f"\n## {name}\n" not in text or f"[{name}](#{name})" not in text] == []


def test_every_rule_is_on_its_page_once():
    text = (DOCS / "rules.md").read_text(encoding="utf-8")

    assert sorted(re.findall(r"^\| \[`([a-z\d-]+)`\]", text, re.MULTILINE)) == names_of_rules()


def test_rules_that_may_blame_any_stage_stand_below_none():
    _, _, last = (DOCS / "rules.md").read_text(encoding="utf-8").rpartition("\n## ")
    heading, _, table = last.partition("\n")
    # Of those the file has the stages from elsewhere: all that there are.
    any_stage = [name for name in names_of_rules() if rule_terms(name).stages is None]

    assert heading == "any stage"
    assert re.findall(r"^\| \[`([a-z\d-]+)`\]", table, re.MULTILINE) == any_stage


def test_the_link_of_a_rule_leads_to_its_file():
    links = re.findall(r"^\| \[`[a-z\d-]+`\]\(([^)]+)\)", (DOCS / "rules.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert links
    assert [link for link in links if not (DOCS / link).is_file()] == []


def test_every_monitor_is_on_its_page_with_its_tables_and_what_is_measured_of_them():
    rows = re.findall(r"^\| `([a-z-]+)` \|.*\| ([^|]*) \| ([^|]*) \|$", (DOCS / "monitors.md").read_text(encoding="utf-8"), re.MULTILINE)
    tables = {name for _, cell, _ in rows for name in re.findall(r"`(\w+)`", cell)}
    measured = {path for *_, cell in rows for path in re.findall(r"`([\w.]+)`", cell)}

    assert {name for name, *_ in rows} == discover("slowstep.record.monitors", "MONITOR").keys()
    assert tables == {table.name for table in MACHINE_TABLES}
    assert measured
    for path in measured:
        attrgetter(path)(measurements())


@pytest.mark.parametrize(
    ("page", "tables"), [("tables.md", (*TRACE_TABLES, *TRACE_MEASUREMENT_TABLES)), ("recording-tables.md", RECORDING_TABLES)]
)
def test_every_table_and_column_is_on_its_page(page, tables):
    text = (DOCS / page).read_text(encoding="utf-8")

    assert [table.name for table in tables if f"### `{table.name}`" not in text] == []
    assert [column.name for table in tables for column in table.columns if f"| `{column.name}` |" not in text] == []


def test_every_field_of_the_report_has_a_type_and_a_meaning():
    page = (DOCS / "report.md").read_text(encoding="utf-8")
    schema = json.loads((ROOT / "src/slowstep/document/report.schema.json").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) \| (.*) \|$", page, re.MULTILINE)

    assert [key for key in schema["properties"] if f"\n## `{key}`\n" not in page] == []
    assert len(rows) > 100
    assert [name for name, kind, meaning in rows if not kind or not meaning] == []


def test_the_readme_names_only_rules_that_exist():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("## What it sees") : readme.index("## How right it is")]
    stages = {"read", "preprocess", "h2d", "compute", "gradient_sharing", "d2h", "output", "store", "unattributed"}
    named = set(re.findall(r"`([a-z\d_-]+)`", table)) - stages

    assert named
    assert sorted(named - set(names_of_rules())) == []


def test_the_readme_can_be_read_in_a_minute():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_link_between_pages_leads_somewhere():
    pages = [*ROOT.glob("*.md"), *DOCS.glob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))]

    assert links
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_where_limits_were_missed_stands_on_the_page_of_overhead():
    missed = (ROOT / "benchmarks/overhead_elsewhere.md").read_text(encoding="utf-8").splitlines()[1:]

    assert [line for line in missed if line not in (ROOT / "docs/overhead.md").read_text(encoding="utf-8").splitlines()] == []
