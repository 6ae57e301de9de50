from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import slowstep.frameworks
from slowstep.analyses.measure_recording import MAKERS as RECORDED
from slowstep.cli import explain, plugin_texts
from slowstep.cli.explain import HEADINGS, LEVER_HEADINGS
from slowstep.cli.plugin_texts import RULES, lever_text, measured_topics, names_of_levers, names_of_rules, rule_terms, rule_text
from slowstep.cli.report_words import VERDICT_MEANING, meaning
from slowstep.errors import BadUsage, DiscoveryError
from slowstep.part_words import part_in_words
from slowstep.parts import Part, PartKind
from slowstep.record.experiment.implementations import known_levers
from slowstep.registry import discover
from slowstep.stages import STAGE_MEANING, STAGES

ROOT = Path(__file__).parents[2]
WIDTH = 80
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


def test_on_a_page_of_a_hundred_cells_no_first_line_is_cut():
    assert not [line for line in explain.listing(explain.by_stage(), 100).splitlines() if line.endswith(" ...")]


def test_without_a_name_all_are_listed_with_their_first_lines():
    assert explain.listing({"Rules": TEXTS, "Levers": {"workers": "More workers."}}, WIDTH).splitlines()[:6] == [
        "Rules",
        "serial-loader  The training makes its own batches.",
        "slow-collate   Collating is slow.",
        "",
        "Levers",
        "workers        More workers.",
    ]


def test_what_does_not_fit_a_line_is_cut_behind_a_word():
    lines = explain.listing({"Rules": {"slow": "One two three four five six."}}, 40).splitlines()

    assert max(map(len, lines)) <= 40
    assert explain.listing({"Rules": {"slow": "One " * 20}}, 40).splitlines()[1] == "slow  One One One One One One One ..."


def test_a_page_has_the_five_headings_in_order():
    page = explain.page("serial-loader", DOCUMENTED, WIDTH)

    assert [line for line in page.splitlines() if line.isupper()] == [heading.upper() for heading in HEADINGS]
    assert page.startswith(
        "serial-loader\n=============\n\nThe training makes its own batches.\n\nWHAT IT SEES\nThe wait for input.\n\nWHY"
    )
    assert "Nothing runs beside it.\n\nNothing at all.\n\nHOW THE GAIN IS PREDICTED\n" in page
    assert page.endswith("WHAT TO TRY\n- num_workers=2\n- a smaller image\n")


def test_symbols_of_the_gain_are_explained_where_they_are_used():
    said = explain.page("slow-thing", DOCUMENTED.replace("T' = max(T - r, B).", "r is all of it."), WIDTH)

    assert "Here r is what the fix removes from a step" in said
    assert said.index("Here r is") < said.index("WHEN IT IS WRONG")
    assert "Here r is" not in explain.page("slow-thing", DOCUMENTED.replace("T' = max(T - r, B).", "Not at all."), WIDTH)


def test_names_are_those_that_the_plug_ins_give_themselves():
    assert names_of_rules() == list(discover(RULES, "RULE", in_folders=True))
    assert names_of_levers() == list(known_levers())


def test_stages_and_topics_of_rules_are_read_as_they_are():
    for name, rule in discover(RULES, "RULE", in_folders=True).items():
        stages, topics = rule_terms(name)
        assert topics == set(rule.topics)
        assert stages == rule.stages or (stages is None and rule.stages == STAGES)
    assert measured_topics("slowstep.analyses.measure_recording") == RECORDED.keys()


def test_nothing_is_imported_to_list_them_all():
    listing = "from slowstep.cli.explain import by_stage; by_stage(); import sys; sys.exit(any('polars' in name for name in sys.modules))"

    assert subprocess.run([sys.executable, "-c", listing], check=False).returncode == 0


@pytest.mark.parametrize("text", ['"""Half.', '"""Whole."""\nRULE = Rule(name="half-done")'], ids=["half a file", "no stages"])
def test_a_broken_rule_costs_no_other_its_line_and_is_said(tmp_path, monkeypatch, text):
    (tmp_path / "half_done.py").write_text(text)
    monkeypatch.setattr(plugin_texts, "names_of_rules", lambda: ["half-done", "serial-loader"])
    monkeypatch.setattr(explain, "names_of_rules", lambda: ["half-done", "serial-loader"])
    file = plugin_texts._file
    monkeypatch.setattr(plugin_texts, "_file", lambda folder, name: file(tmp_path if name == "half-done" else folder, name))

    groups = explain.by_stage()

    assert list(groups["Rules that cannot be read"]) == ["half-done"]
    assert [name for group, texts in groups.items() if group.startswith("Rules: ") for name in texts] == ["serial-loader"]


def test_all_are_listed_by_stage_each_rule_once_and_those_that_judge_only_traces_apart():
    groups = explain.by_stage()

    assert "slow-callback" in groups["Rules: output"]
    assert "launch-bound" in groups["Rules for traces only: compute"]
    *rules, (_, levers) = groups.items()
    assert sorted(name for _, texts in rules for name in texts) == sorted(discover(RULES, "RULE", in_folders=True))
    assert set(levers) == set(known_levers())


@pytest.fixture
def broken_lever(tmp_path, monkeypatch):
    """A framework with a lever whose file can be neither imported nor read."""
    folder = tmp_path / "other" / "inside" / "levers"
    folder.mkdir(parents=True)
    (folder / "half_done.py").write_text('"""Half.')
    monkeypatch.setattr(slowstep.frameworks, "__path__", [*slowstep.frameworks.__path__, str(tmp_path)])


@pytest.mark.usefixtures("broken_lever")
def test_a_broken_lever_costs_no_other_page_and_is_said():
    listed = explain.by_stage()["Levers: changes that slowstep prove makes to a training, by --levers"]

    assert CliRunner().invoke(explain.app, ["serial-loader"]).exit_code == 0
    assert listed["half-done"] == "Its file is broken: slowstep explain half-done says how."
    assert listed["workers"] == lever_text("workers")
    with pytest.raises(DiscoveryError, match=r"half_done\.py cannot be read"):
        lever_text("half-done")


def test_a_rule_and_a_lever_of_one_name_are_both_explained():
    said = CliRunner().invoke(explain.app, ["cold-cache"]).stdout

    assert rule_text("cold-cache") != lever_text("cold-cache")
    assert all(heading.upper() in said for heading in (*HEADINGS, *LEVER_HEADINGS))


def test_headings_may_be_set_in_stars():
    starred = re.sub(r"^(\w[\w ]+):$", r"*\1*", DOCUMENTED, flags=re.MULTILINE)

    assert starred != DOCUMENTED
    assert explain.page("serial-loader", starred, WIDTH) == explain.page("serial-loader", DOCUMENTED, WIDTH)


@pytest.mark.parametrize("name", ["serial-loader", "serial_loader", " Serial-Loader ", "serial-loader=4"])
def test_a_name_may_be_spelled_as_its_file_is_or_as_a_lever_is_given(name):
    assert explain.chosen(name, TEXTS) == "serial-loader"


@pytest.mark.parametrize(
    ("name", "hint"), [("serial-lodaer", "serial-loader"), ("collate", "slow-collate"), ("xyz", "slowstep explain lists rules and levers")]
)
def test_an_unknown_name_gets_the_closest_ones(name, hint):
    with pytest.raises(BadUsage, match=f"no rule, lever, stage, part or verdict is called '{name}'.*{hint}"):
        explain.chosen(name, TEXTS)


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("preproces", "preprocess"),
        ("gradient-sharin", "gradient_sharing"),
        ("helthy", "healthy"),
        ("transprt", "transport"),
        ("waiting for cores", "'waiting for a core'"),
        ("serial-lodaer", "serial-loader"),
    ],
    ids=["a stage", "a stage of two words", "a verdict", "a part", "a part of several words", "a rule"],
)
def test_the_closest_names_are_of_all_kinds_and_can_be_typed(name, offered):
    with pytest.raises(BadUsage) as error:
        CliRunner().invoke(explain.app, [name], catch_exceptions=False)

    (first, *_) = str(error.value).rpartition("Did you mean ")[2].rstrip("?").split(" or ")
    assert first == offered
    assert meaning(*shlex.split(first)) or first in names_of_rules()


@pytest.mark.parametrize("lever", sorted(known_levers()))
def test_every_lever_is_documented_in_the_fixed_form(lever):
    text = lever_text(lever)

    headed = [line for line in explain.page(lever, text, WIDTH).splitlines() if line in [heading.upper() for heading in LEVER_HEADINGS]]

    assert headed == [heading.upper() for heading in LEVER_HEADINGS]
    assert text == inspect.cleandoc(text)
    assert text.partition("\n")[0].endswith(".")


@pytest.mark.parametrize("name", ["serial-loader", "mock-loader"])
def test_the_command_prints_a_rule_and_a_lever(name):
    app = typer.Typer()
    app.command()(explain.explain)

    result = CliRunner().invoke(app, [name])

    assert result.exit_code == 0
    assert result.stdout.startswith(f"{name}\n")


@pytest.mark.parametrize(("columns", "widest"), [("80", 80), ("50", 50), ("10", 40), ("300", 120)])
@pytest.mark.parametrize("words", [[], ["workers"], ["slow-callback"]])
def test_what_it_prints_fits_the_terminal_and_fills_it(monkeypatch, columns, widest, words):
    monkeypatch.setenv("COLUMNS", columns)
    app = typer.Typer()
    app.command()(explain.explain)

    lines = CliRunner().invoke(app, words).stdout.splitlines()

    longest = max(map(len, lines))
    assert longest <= widest
    # The first lines of all need no more than a hundred cells.
    assert longest > min(widest, 100 if not words else widest) - 15


def test_items_of_a_list_are_filled_each_by_itself():
    page = explain.page("x", "What.\n\nWhat to try:\n    - one thing that\n      is long\n    * another", 16)

    assert page.endswith("WHAT TO TRY\n- one thing that\n  is long\n* another\n")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("preprocess", ("preprocess: waiting for input", "serial-loader")),
        ("gradient-sharing", ("gradient sharing: collectives",)),
        ("unattributed", ("unattributed: time that nothing recorded can name",)),
        ("BOTTLENECK", ("BOTTLENECK: a finding predicts",)),
        ("healthy", ("HEALTHY: no finding",)),
        ("transport", ("transport: a batch that a worker has made",)),
        ("waiting for a core (loader)", ("waiting for a core (loader): what makes the batch",)),
    ],
)
def test_stages_and_verdicts_of_a_report_are_explained(word, says):
    app = typer.Typer()
    app.command()(explain.explain)

    said = CliRunner().invoke(app, [word])

    assert said.exit_code == 0
    assert all(each in said.output for each in says)


@pytest.mark.parametrize("kind", PartKind)
def test_every_part_of_a_report_is_explained_and_hides_no_rule_or_lever(kind):
    words = part_in_words(Part("", kind))

    word, text, is_stage = meaning(words)

    assert words not in {*names_of_rules(), *names_of_levers()}
    assert (word, is_stage) == (words, words in STAGE_MEANING)
    assert text not in ("", words)


def test_a_name_of_a_rule_and_a_lever_is_offered_once():
    with pytest.raises(BadUsage, match="Did you mean cold-cache") as error:
        explain.chosen("cold-cach", ["cold-cache", "cold-cache"])
    assert str(error.value).count("cold-cache") == 1


def test_words_of_a_report_hide_no_rule_or_lever_and_are_all_defined():
    defined = (ROOT / "docs/definitions.md").read_text()

    assert not {*STAGE_MEANING, *VERDICT_MEANING} & {*names_of_rules(), *names_of_levers()}
    assert all(f"| {word} |" in defined for word in VERDICT_MEANING)
