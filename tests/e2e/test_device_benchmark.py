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

# Of these it takes seconds to say that there is no device; `cases` trains each of its own on the processor.
QUICK = tuple(part for part in PARTS if part != "cases")

pytestmark = pytest.mark.timeout(300)


def without_device(out, *parts):
    environment = {**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run([DEVICE / "run.sh", "--out", out, *parts], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, out


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    return without_device(tmp_path_factory.mktemp("device"))


@pytest.mark.slow
def test_parts_that_are_asked_for_start_and_say_that_there_is_no_device(tmp_path):
    said, out = without_device(tmp_path, *QUICK)

    parts = json.loads((out / "results.json").read_text())["parts"]

    assert {name: part.get("skipped") for name, part in parts.items()} == dict.fromkeys(QUICK, "no device")
    assert re.findall(r"^(\w+): no device", said, re.MULTILINE) == list(QUICK)


@pytest.mark.nightly
def test_every_part_starts_and_says_that_there_is_no_device(dry_run):
    said, out = dry_run

    parts = json.loads((out / "results.json").read_text())["parts"]

    assert {name: part.get("skipped") for name, part in parts.items()} == dict.fromkeys(PARTS, "no device")
    assert re.findall(r"^(\w+): no device", said, re.MULTILINE) == list(PARTS)


@pytest.mark.nightly
def test_the_fixed_form_of_every_case_trains_on_the_processor(dry_run):
    cases = json.loads((dry_run[1] / "results.json").read_text())["parts"]["cases"]
    rates = {name: row["samples_per_s"] for name, row in cases.items() if isinstance(row, dict)}

    assert len(rates) == 7
    assert min(rates.values()) > 0


@pytest.mark.nightly
def test_the_page_has_a_section_for_each_part(dry_run):
    page = (dry_run[1] / "results.md").read_text()

    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == list(PARTS)
    assert page.count("Skipped: no device.") == len(PARTS)
