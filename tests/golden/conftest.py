from __future__ import annotations

import pytest

from declared import hold_rules_to_their_topics
from golden.answers import code_of_part


@pytest.fixture(autouse=True)
def only_declared_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_rules_to_their_topics(monkeypatch)


@pytest.fixture(autouse=True)
def parts_by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the report has the words of a part, its code."""
    for module in ("ledger", "rows"):
        monkeypatch.setattr(f"slowstep.document.{module}.part_in_words", code_of_part)
