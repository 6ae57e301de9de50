from __future__ import annotations

from collections.abc import Iterator

import pytest

from recorded import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Runs scripts without starting Python and importing torch for each."""
    server = Server()
    yield server
    server.close()
