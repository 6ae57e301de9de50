from __future__ import annotations

import pytest

from declared import hold_rules_to_their_topics
from declared_tables import hold_analyses_to_their_tables
from golden.answers import code_of_part


@pytest.fixture(autouse=True)
def only_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_rules_to_their_topics(monkeypatch)
    hold_analyses_to_their_tables(monkeypatch)


@pytest.fixture(autouse=True)
def parts_by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the report has the words of a part, its code."""
    for module in ("ledger", "rows"):
        monkeypatch.setattr(f"slowstep.document.{module}.part_in_words", code_of_part)
