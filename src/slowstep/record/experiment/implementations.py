"""Which levers there are, and who makes the change of one: the framework that trains, or whoever can do it for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from slowstep.errors import DiscoveryError
from slowstep.record.experiment.lever import Change, Implementation, Lever, LeverSpec, NotApplicable, Prepare
from slowstep.record.framework import is_imported, known_frameworks
from slowstep.record.living import TooManyObjects, one_search
from slowstep.registry import find_by_file, find_by_folder, names_by_file, names_by_folder

if TYPE_CHECKING:
    from slowstep.record.experiment.training import Training


@cache
def implementations(name: str) -> dict[str, Implementation]:
    """Those of one lever, by framework. Raises DiscoveryError for a broken one."""
    return find_by_folder("slowstep.frameworks", "inside.levers", name, "IMPLEMENTATION", Implementation)


@cache
def find_lever(name: str) -> Lever | None:
    """A lever by its name, also one that one framework alone has; None where there is none. No file of another lever is imported.

    Raises DiscoveryError for a broken one, and where frameworks mean different levers by the name.
    """
    lever = find_by_file("slowstep.levers", name, "LEVER", Lever)
    for framework, made in implementations(name).items():
        if (lever := lever or made.lever) is not made.lever:
            raise DiscoveryError(f"{framework} implements another lever {name!r} than the known one. Rename it, or import that one.")
    return lever


def known_levers() -> dict[str, Lever]:
    """All levers by name, those that one framework alone has among them, without the broken ones."""
    return {name: lever for name, lever in _looked_up().items() if isinstance(lever, Lever)}


def broken_levers() -> dict[str, DiscoveryError]:
    """What is wrong with each lever whose file is of no use, by name."""
    return {name: error for name, error in _looked_up().items() if isinstance(error, DiscoveryError)}


@cache
def _looked_up() -> dict[str, Lever | DiscoveryError | None]:
    names = names_by_file("slowstep.levers") | names_by_folder("slowstep.frameworks", "inside.levers")
    return {name: _looked_at(name) for name in sorted(names)}


def _looked_at(name: str) -> Lever | DiscoveryError | None:
    try:
        return find_lever(name)
    except DiscoveryError as error:
        return error.with_traceback(None)


def can_be_made(name: str, trains: Iterable[str], loads: str | None, *, computes: str | None = None) -> bool:
    """Whether a lever's change can be made where the frameworks called so train, on one that `computes` for them where they do not
    themselves, and a loader of `loads` feeds them (None: no loader).

    What `prepared` will find, told before the training runs; of a lever's files only those that may be it are imported.
    """
    try:
        made, lever = implementations(name), find_by_file("slowstep.levers", name, "LEVER", Lever)
    except DiscoveryError:
        # Whoever tries it is told what is broken.
        return True
    feeding = made.get(loads) if loads else None
    return (
        any(framework in made and made[framework].computes_with in (None, computes) for framework in trains)
        or (lever is not None and lever.prepare is not None)
        or (feeding is not None and feeding.acts_on_loader)
    )


def can_build(name: str) -> bool:
    """Whether a lever can also change a loader where the script builds it; not one that is broken, of which that is said elsewhere."""
    try:
        return any(made.build is not None for made in implementations(name).values())
    except DiscoveryError:
        return False


def prepared(lever: Lever, training: Training, spec: LeverSpec) -> Change:
    """The lever's change, made ready by the first that can. Raises as `Prepare`: what the first one says where none can."""
    refused: NotApplicable | None = None
    with one_search():
        for prepare in _ways(lever, training):
            try:
                return prepare(training, spec)
            except NotApplicable as error:
                # Its frames refer to loaders and their workers.
                refused = refused or error.with_traceback(None)
            except TooManyObjects as error:
                refused = refused or NotApplicable(str(error))
    try:
        raise refused or NotApplicable(_nobody_makes(lever, training))
    finally:
        # This frame is the error's, and must not hold it in turn.
        del refused


def _nobody_makes(lever: Lever, training: Training) -> str:
    said = f"slowstep cannot make this change in a training with {training.recorder.framework.name or 'what trains here'}"
    return said if lever.hint is None else f"{said}: {lever.hint}"


def _ways(lever: Lever, training: Training) -> Iterator[Prepare]:
    """Of what changes loaders that of the framework whose loader feeds the training, where that is known and is not what trains. Then that
    of a trainer whose loop runs, and of the framework that updates; where these have none, of no framework. Then of others whose loader may
    feed it.
    """
    by_framework = implementations(lever.name)
    known = {framework: made for framework in known_frameworks() if (made := by_framework.get(framework.name)) is not None}
    own = [framework for framework in known if framework.trainer() is not None]
    own += [framework for framework in known if framework is training.recorder.framework]
    others = {other: made for other, made in known.items() if made.acts_on_loader and other not in own and is_imported(other)}
    if others and (feeding := others.pop(training.loader_framework, None)) is not None:
        yield feeding.prepare
    yield from (known[framework].prepare for framework in own)
    if not own and lever.prepare is not None:
        yield lever.prepare
    yield from (made.prepare for made in others.values())
