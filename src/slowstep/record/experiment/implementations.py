"""Which levers there are, and who makes the change of one: the framework that trains, or whoever can do it for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from slowstep.errors import DiscoveryError
from slowstep.record.experiment.lever import Change, Implementation, Lever, LeverSpec, NotApplicable, Prepare
from slowstep.record.framework import is_imported, known_frameworks
from slowstep.registry import discover, discover_by_folder, find

if TYPE_CHECKING:
    from slowstep.record.experiment.training import Training


@cache
def implementations() -> dict[str, dict[str, Implementation]]:
    """Those of each framework by the names of their levers. Raises DiscoveryError for a broken one."""
    return discover_by_folder("slowstep.frameworks", "inside.levers", "IMPLEMENTATION", Implementation, by_file=True)


@cache
def known_levers() -> dict[str, Lever]:
    """All levers by name, those that one framework alone has among them.

    Raises DiscoveryError for a broken one, and for two levers of one name.
    """
    known = discover("slowstep.levers", "LEVER", Lever, by_file=True)
    for framework, made in implementations().items():
        for name, implementation in made.items():
            if known.setdefault(name, implementation.lever) is not implementation.lever:
                raise DiscoveryError(f"{framework} implements another lever {name!r} than the known one. Rename it, or import that one.")
    return dict(sorted(known.items()))


def can_be_made(name: str, trains: Iterable[str], loads: str | None) -> bool:
    """Whether a lever's change can be made where the frameworks called so train, and a loader of `loads` feeds them (None: no loader).

    What `prepared` will find, told before the training runs; of a lever's files only those that may be it are imported.
    """
    if any(_of(framework, name) is not None for framework in trains):
        return True
    lever = find("slowstep.levers", _file(name), "LEVER", Lever)
    feeding = _of(loads, name) if loads else None
    return (lever is not None and lever.prepare is not None) or (feeding is not None and feeding.acts_on_loader)


def changes_loader(name: str, framework: str) -> bool:
    """Whether a framework makes a lever's change, so that one which changes loaders changes its own."""
    return _of(framework, name) is not None


def _of(framework: str, name: str) -> Implementation | None:
    return find(f"slowstep.frameworks.{framework}.inside.levers", _file(name), "IMPLEMENTATION", Implementation) if framework else None


def _file(name: str) -> str:
    return name.replace("-", "_")


def can_build(name: str) -> bool:
    """Whether a lever can also change a loader where the script builds it."""
    return any(made[name].build is not None for made in implementations().values() if name in made)


def prepared(lever: Lever, training: Training, spec: LeverSpec) -> Change:
    """The lever's change, made ready by the first that can. Raises as `Prepare`: what the first one says where none can."""
    refused: NotApplicable | None = None
    for prepare in _ways(lever, training):
        try:
            return prepare(training, spec)
        except NotApplicable as error:
            # Its frames refer to loaders and their workers.
            refused = refused or error.with_traceback(None)
    trains = training.recorder.framework.name or "what trains here"
    try:
        raise refused or NotApplicable(f"slowstep cannot make this change in a training with {trains}")
    finally:
        # This frame is the error's, and must not hold it in turn.
        del refused


def _ways(lever: Lever, training: Training) -> Iterator[Prepare]:
    """That of a trainer whose loop runs, and of the framework that updates. Where these have none: of the framework whose loader feeds the
    training, and of none. Then of others whose loader may feed it.
    """
    by_framework = {framework: made[lever.name] for framework, made in implementations().items() if lever.name in made}
    known = {framework: made for framework in known_frameworks() if (made := by_framework.get(framework.name)) is not None}
    own = [framework for framework in known if framework.trainer() is not None]
    own += [framework for framework in known if framework is training.recorder.framework]
    yield from (known[framework].prepare for framework in own)
    others = {other: made for other, made in known.items() if made.acts_on_loader and other not in own and is_imported(other)}
    if others and (feeding := others.pop(training.loader_framework, None)) is not None:
        yield feeding.prepare
    if not own and lever.prepare is not None:
        yield lever.prepare
    yield from (made.prepare for made in others.values())
