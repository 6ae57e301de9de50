from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from launching import Workplace


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the case study keeps what it makes for itself: made once."""
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workplace]:
    """A folder to run commands in; no process may be left at the end."""
    place = Workplace(tmp_path)
    yield place
    left = place.left()
    place.close()
    assert left == []
