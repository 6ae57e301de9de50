"""What every exporter has, and how the command line finds them."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

from made_recordings import Training, make_recording
from slowstep import exporters as package
from slowstep.cli import analyze as command
from slowstep.cli import analyze_report
from slowstep.cli.options import export as export_options
from slowstep.cli.plugin_texts import ExporterTerms, exporter_terms
from slowstep.errors import BadUsage
from slowstep.exporters._exporter import Exporter
from slowstep.sources._source import PLAIN
from slowstep.workflow.analyze import analyze, examine
from slowstep.workflow.export import export, export_document, exporters
from slowstep.workflow.traces.trace_request import TraceRequest

FILES = sorted(path.stem.replace("_", "-") for path in Path(package.__path__[0]).glob("[!_]*.py"))


def write_title(target, report):
    target.write_text(report["verdict"]["summary"])


TITLE = Exporter(name="title", suffix=".title.txt", writes="the verdict alone", write_document=write_title)


def test_every_file_is_an_exporter():
    assert sorted(exporters()) == FILES
    assert FILES


@pytest.mark.parametrize("name", FILES)
def test_an_exporter_is_named_as_its_file_and_says_what_it_writes(name):
    exporter = exporters()[name]

    assert re.fullmatch(r"[a-z][a-z0-9-]*", exporter.name)
    assert exporter.suffix.startswith(".")
    assert re.fullmatch(r"[a-z].*[^.]", exporter.writes)


@pytest.mark.parametrize("name", FILES)
def test_an_exporter_begins_with_a_sentence_on_what_becomes_of_what(name):
    first = inspect.cleandoc(importlib.import_module(f"slowstep.exporters.{name.replace('-', '_')}").__doc__ or "").partition("\n\n")[0]

    assert re.fullmatch(r"[A-Z`].*\.", first)


@pytest.mark.parametrize("name", FILES)
def test_an_exporter_takes_the_document_alone_or_what_it_is_of(name):
    exporter = exporters()[name]

    assert (exporter.write_document is None) != (exporter.write is None)


def test_what_the_help_says_of_exporters_is_what_they_are():
    assert exporter_terms() == {name: ExporterTerms(each.suffix, each.writes) for name, each in exporters().items()}


def test_no_two_exporters_write_to_the_same_place():
    assert len({exporter.suffix for exporter in exporters().values()}) == len(exporters())


def test_one_that_takes_the_document_is_named_for_the_recording(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recording = make_recording(tmp_path / "r", Training(steps=60, workers=1))
    examined = examine([recording])

    place = export(TITLE, [recording], examined, None, asked=TraceRequest(), how=PLAIN)

    assert place == Path("r.title.txt")
    assert place.read_text() == examined.report["verdict"]["summary"]


def test_a_report_without_its_recording_is_exported_by_what_takes_the_document_only(tmp_path, monkeypatch, capsys):
    document = analyze([make_recording(tmp_path / "r", Training(steps=60, workers=1))])
    (tmp_path / "kept.json").write_text(json.dumps(document))
    monkeypatch.setitem(export_options._KNOWN, "title", ExporterTerms(TITLE.suffix, TITLE.writes))
    monkeypatch.setattr(analyze_report, "exporters", lambda: exporters() | {"title": TITLE})

    command.analyze([tmp_path / "kept.json"], export="title", export_to=tmp_path / "out")

    assert (tmp_path / "out").read_text() == document["verdict"]["summary"]
    assert f"Written     {tmp_path / 'out'}" in capsys.readouterr().out
    with pytest.raises(BadUsage, match=r"kept\.json is a report"):
        command.analyze([tmp_path / "kept.json"], export="chrome")
    with pytest.raises(BadUsage, match=r"kept\.json is a report"):
        export_document(exporters()["chrome"], tmp_path / "kept.json", document, None)
