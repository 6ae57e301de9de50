"""Reports that an earlier slowstep wrote: what they lack is known by the names that it had in them, which never change any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slowstep.findings import EvidenceCode

# The names of evidence in reports of before it had codes.
_CODES: Final = {
    "cores used by others": EvidenceCode.USED_BY_OTHERS,
    "num_workers": EvidenceCode.SETTING,
    "timed in": EvidenceCode.TIMED_IN,
    "stack samples in it": EvidenceCode.STACKS,
    "stack samples in the forward": EvidenceCode.STACKS,
}


def with_codes(document: Mapping[str, Any]) -> dict[str, Any]:
    """The report with the codes of its evidence. One of a form that is not known stays as it is: whoever shows it says so."""
    findings = document.get("findings")
    if not isinstance(findings, list) or not all(isinstance(each, dict) and isinstance(each.get("evidence"), list) for each in findings):
        return dict(document)
    return {**document, "findings": [each | {"evidence": [_with_code(row) for row in each["evidence"]]} for each in findings]}


def _with_code(row: Any) -> Any:
    if not isinstance(row, dict) or "code" in row:
        return row
    code = _CODES.get(str(row.get("name")))
    return row if code is None else row | {"code": code.value}
