"""The benchmark of accelerators, where there is none: whoever gets a device for minutes must not find out then that it does not start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEVICE = Path(__file__).parents[2] / "benchmarks" / "device"
PARTS = ("overhead", "cases", "replay", "facts", "traces")

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("device")
    environment = {**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run([DEVICE / "run.sh", "--out", out], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, out


def test_every_part_starts_and_says_that_there_is_no_device(dry_run):
    said, out = dry_run

    parts = json.loads((out / "results.json").read_text())["parts"]

    assert {name: part.get("skipped") for name, part in parts.items()} == dict.fromkeys(PARTS, "no device")
    assert re.findall(r"^(\w+): no device", said, re.MULTILINE) == list(PARTS)


def test_the_fixed_form_of_every_case_trains_on_the_processor(dry_run):
    cases = json.loads((dry_run[1] / "results.json").read_text())["parts"]["cases"]
    rates = {name: row["samples_per_s"] for name, row in cases.items() if isinstance(row, dict)}

    assert len(rates) == 7
    assert min(rates.values()) > 0


def test_the_page_has_a_section_for_each_part(dry_run):
    page = (dry_run[1] / "results.md").read_text()

    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == list(PARTS)
    assert page.count("Skipped: no device.") == len(PARTS)
