"""What `slowstep analyze` refuses before it reads anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.cli.analyze import analyze
from slowstep.errors import BadUsage, UnwritableOutput
from slowstep.workflow.export import exporters

TRACES = Path(__file__).parents[1] / "data" / "kineto"


def test_a_place_to_export_to_without_what_to_export_is_refused():
    with pytest.raises(BadUsage, match=" or ".join(f"--export {name}" for name in sorted(exporters()))) as refused:
        analyze([Path("never_read.json")], export_to=Path("foo"))
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("kind", ["perfetto", ""])
def test_an_export_of_another_kind_is_refused_before_anything_is_read(kind):
    with pytest.raises(BadUsage, match=" or ".join(sorted(exporters()))):
        analyze([Path("never_read.json")], export=kind)


def test_a_file_of_the_users_in_the_place_of_the_report_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "results.json").write_text("mine")

    with pytest.raises(UnwritableOutput, match=r"results\.json exists and is no report"):
        analyze([Path("never_read.json")], json=str(tmp_path / "results.json"))


@pytest.mark.parametrize("where", ["mi250_two_steps", "mi250_two_steps/trace.json.gz"])
def test_a_trace_is_never_called_the_last_run(where, capsys):
    analyze([TRACES / where])

    assert "last run" not in capsys.readouterr().err
