from __future__ import annotations

import gc
import json
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from busy_retry import BusyRetry
from how_many import WHOLE
from recorded import Server, Servers
from slowstep.record import living

REPORTS = Path(__file__).parent / "data" / "reports"
settings.load_profile(WHOLE)
# Whoever is started in the background of a shell script, with `nohup` or by some CI, ignores Ctrl-C, and so do all that he starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same of hang-ups: with a handler of our own this process goes on not to mind them, and those that it starts do as usual.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-snapshots", action="store_true", help="Write the expected files anew; read the difference before you commit it."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(BusyRetry())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """While tests are collected no garbage is: there is next to none, and each collection walks through all that they import."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="module")
def small_heap() -> Iterator[None]:
    """Full collections of garbage walk only what the module's tests make: through all that a session holds, each takes half a second."""
    gc.collect()
    gc.freeze()
    # Python begins full collections by how much the last one left.
    gc.collect()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def patient_searches() -> Iterator[None]:
    """Searches for objects may take long: on a busy machine, through all that a session of tests holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(living, "_LONGEST_S", 300.0)
        yield


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Run scripts without starting Python and importing torch, and more, for each."""
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def server(servers: Servers) -> Server:
    """That of them which has imported torch alone."""
    return servers.having()


@pytest.fixture
def looked_at(request: pytest.FixtureRequest) -> Callable[[Path, str], str]:
    """The checked-in text that a text is to be; with `--update-snapshots` the text itself, which is then checked in."""

    def read(path: Path, text: str) -> str:
        if request.config.getoption("--update-snapshots"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: run with --update-snapshots"
        return path.read_text(encoding="utf-8")

    return read


@pytest.fixture
def sample_report() -> Callable[[str], dict[str, Any]]:
    """A report of tests/data/reports by its name, fresh each time."""

    def load(name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((REPORTS / f"{name}.json").read_text(encoding="utf-8"))
        return loaded

    return load


@pytest.fixture
def bottleneck(sample_report: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return sample_report("bottleneck")


@pytest.fixture
def real_bench() -> Callable[[str], dict[str, Any]]:
    """What a real `slowstep bench` measured, by the name of its file in tests/data/bench, fresh each time."""

    def load(name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((REPORTS.parent / "bench" / f"{name}.json").read_text(encoding="utf-8"))
        return loaded

    return load
