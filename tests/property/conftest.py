from __future__ import annotations

import pytest

from declared_tables import hold_analyses_to_their_tables


@pytest.fixture(autouse=True)
def only_declared_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_analyses_to_their_tables(monkeypatch)
