from __future__ import annotations

import inspect
import re

import pytest
import typer
from typer.testing import CliRunner

from slowstep.cli import explain
from slowstep.cli.explain import HEADINGS, RULES
from slowstep.errors import BadUsage
from slowstep.registry import discover

TEXTS = {"serial-loader": "The training makes its own batches.\n\n*What it sees* Waits.", "slow-collate": "Collating is slow."}
DOCUMENTED = """The training makes its own batches.

What it sees:
    The wait for
    input.
Why it costs:
    Nothing runs beside it.

    Nothing at all.
How the gain is predicted:
    T' = max(T - r, B).
When it is wrong:
    With one core.
What to try:
    - num_workers=2
    - a smaller image
"""


def test_without_a_name_all_are_listed_with_their_first_lines():
    assert explain.listing(TEXTS).splitlines()[:2] == [
        "serial-loader  The training makes its own batches.",
        "slow-collate   Collating is slow.",
    ]


def test_a_page_has_the_five_headings_in_order():
    page = explain.page("serial-loader", DOCUMENTED)

    assert [line for line in page.splitlines() if line.isupper()] == [heading.upper() for heading in HEADINGS]
    assert page.startswith(
        "serial-loader\n=============\n\nThe training makes its own batches.\n\nWHAT IT SEES\nThe wait for input.\n\nWHY"
    )
    assert "Nothing runs beside it.\n\nNothing at all.\n\nHOW THE GAIN IS PREDICTED\n" in page
    assert page.endswith("WHAT TO TRY\n- num_workers=2\n- a smaller image\n")


def test_headings_may_be_set_in_stars():
    starred = re.sub(r"^(\w[\w ]+):$", r"*\1*", DOCUMENTED, flags=re.MULTILINE)

    assert starred != DOCUMENTED
    assert explain.page("serial-loader", starred) == explain.page("serial-loader", DOCUMENTED)


@pytest.mark.parametrize("name", ["serial-loader", "serial_loader", " Serial-Loader "])
def test_a_name_may_be_spelled_as_its_file_is(name):
    assert explain.chosen(name, TEXTS) == TEXTS["serial-loader"]


@pytest.mark.parametrize(
    ("name", "hint"), [("serial-lodaer", "serial-loader"), ("collate", "slow-collate"), ("xyz", "serial-loader, slow-collate")]
)
def test_an_unknown_name_gets_the_closest_ones(name, hint):
    with pytest.raises(BadUsage, match=f"No rule is called '{name}'.*{hint}"):
        explain.chosen(name, TEXTS)


@pytest.mark.parametrize("rule", sorted(discover(RULES, "RULE")))
def test_every_rule_is_documented_in_the_fixed_form(rule):
    text = explain.rule_texts()[rule]

    page = explain.page(rule, text)

    assert [line for line in page.splitlines() if line in [heading.upper() for heading in HEADINGS]] == [
        heading.upper() for heading in HEADINGS
    ]
    assert text == inspect.cleandoc(text)
    assert text.partition("\n")[0].endswith(".")


@pytest.mark.parametrize("rule", sorted(discover(RULES, "RULE")))
def test_the_command_prints_every_rule(rule):
    app = typer.Typer()
    app.command()(explain.explain)

    result = CliRunner().invoke(app, [rule])

    assert result.exit_code == 0
    assert result.stdout.startswith(f"{rule}\n")
