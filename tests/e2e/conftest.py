from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from launching import Workplace
from small_torch import write_small_torch


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


@pytest.fixture(scope="session")
def small_torch_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_torch(tmp_path_factory.mktemp("site"))


@pytest.fixture
def small_torch(work: Workplace, small_torch_site: Path) -> None:
    """The scripts of the folder import the small torch: where it is shown what starts or ends a training, whatever it computes."""
    work.variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(small_torch_site), os.environ.get("PYTHONPATH")]))
