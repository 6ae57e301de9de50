from __future__ import annotations

import pytest

from declared import hold_rules_to_their_topics


@pytest.fixture(autouse=True)
def only_declared_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_rules_to_their_topics(monkeypatch)
