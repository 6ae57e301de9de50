"""Reports of before evidence had codes are read as those that have them."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.workflow.older_reports import with_codes


def test_evidence_without_a_code_gets_that_of_the_name_that_it_had() -> None:
    rows: list[dict[str, Any]] = [{"name": "cores used by others", "value": 1.5}, {"name": "calls", "value": 3}]

    found = with_codes({"findings": [{"rule": "foreign-load", "evidence": rows}]})["findings"][0]["evidence"]

    assert found == [{"name": "cores used by others", "value": 1.5, "code": "used-by-others"}, {"name": "calls", "value": 3}]
    assert "code" not in rows[0]


def test_a_code_that_is_there_stays() -> None:
    row = {"name": "timed in", "value": 3, "code": "stacks"}

    assert with_codes({"findings": [{"evidence": [row]}]}) == {"findings": [{"evidence": [row]}]}


@pytest.mark.parametrize("findings", [None, 3, [3], [{}], [{"evidence": None}], [{"evidence": [3, {"name": ["x"]}]}]])
def test_what_is_no_report_of_any_version_stays_as_it_is(findings: Any) -> None:
    assert with_codes({"findings": findings}) == {"findings": findings}
