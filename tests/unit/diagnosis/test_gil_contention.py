"""Python threads of the script's own that compute beside the training: what they may hold up is a part of its own, and never healthy."""

from __future__ import annotations

from typing import Any

import pytest

from judged_recordings import named, report_of

NAME = "gil-contention"
# Bodies of 19 ms, of which nothing but work is known.
PLAIN: dict[str, Any] = {"workers": 2, "getitem_ms": 4, "persistent": True}


def test_a_thread_that_computes_while_bodies_are_blocked_is_named_and_not_healthy(tmp_path):
    report = report_of(tmp_path, {**PLAIN, "beside": (0.6, 8.0)})

    finding = report["findings"][0]
    assert (finding["rule"], finding["stage"]) == (NAME, "compute")
    assert "decode (data.py:90)" in finding["title"]
    assert report["verdict"]["state"] != "healthy"
    assert finding["gain"]["predicted"] is None
    assert "gil-contention" in report["verdict"]["summary"]


def test_no_more_is_charged_than_the_thread_computed(tmp_path):
    report = report_of(tmp_path, {**PLAIN, "beside": (0.15, 10.0)})

    share = next(finding["share"] for finding in report["findings"] if finding["rule"] == NAME)
    assert share == pytest.approx(0.15, abs=0.02)


@pytest.mark.parametrize(
    ("training", "rule"),
    [({"workers": 0, "getitem_ms": 30}, "serial-loader"), ({"workers": 1, "getitem_ms": 60, "other_ms": 2}, "too-few-workers")],
    ids=["serial loader", "a worker too few"],
)
def test_a_larger_bottleneck_leads_and_neither_is_folded_into_the_other(tmp_path, training, rule):
    report = report_of(tmp_path, {**training, "persistent": True, "beside": (0.3, 4.0)})

    assert (report["verdict"]["state"], report["verdict"]["rule"]) == ("bottleneck", rule), report["verdict"]["summary"]
    assert NAME in [finding["rule"] for finding in report["findings"]]


def test_where_nothing_looked_at_threads_it_is_not_said_that_there_were_none(tmp_path):
    report = report_of(tmp_path, PLAIN)

    assert NAME in [row["rule"] for row in report["not_judged"]]
    assert report["verdict"]["state"] == "healthy"


@pytest.mark.parametrize("beside", [None, (0.05, 8.0), (0.9, 0.0)], ids=["no thread", "a thread that hardly computes", "nothing blocked"])
def test_a_thread_without_harm_and_blocked_bodies_without_a_thread_are_none(tmp_path, beside):
    report = report_of(tmp_path, {**PLAIN, "beside": beside})

    assert NAME not in named(report)
