"""Whether a lever was asked for as it can be meant, of those that there are."""

from __future__ import annotations

from collections.abc import Mapping

from slowstep.close_names import close_names
from slowstep.command_words import explain
from slowstep.errors import BadUsage
from slowstep.record.experiment.implementations import find_lever
from slowstep.record.experiment.lever import Lever, LeverSpec


def check(spec: LeverSpec, levers: Mapping[str, Lever], *, filled_in: frozenset[str] = frozenset()) -> None:
    """Hold a lever that was asked for against those there are; of those `filled_in` the value may be left out.

    Raises BadUsage for one that does not exist, for a value that is missing, not taken or cannot be meant, and for `every` where it means
    nothing; DiscoveryError for one that is broken.
    """
    lever = levers.get(spec.name) or find_lever(spec.name)
    if lever is None:
        raise BadUsage(f"no lever is called {spec.name!r}. {_hint(spec.name, levers)}")
    if spec.value is None and lever.takes and not lever.takes_optional and spec.name not in filled_in:
        raise BadUsage(f"lever {spec.name} needs a value: {spec.name}={lever.takes}. See: {explain(spec.name)}")
    if spec.value is not None and lever.takes is None:
        raise BadUsage(f"lever {spec.name} takes no value, and {spec.value!r} was given. See: {explain(spec.name)}")
    if spec.every > 1 and not lever.every:
        raise BadUsage(f"lever {spec.name} is on or off: every={spec.every} means nothing to it. See: {explain(spec.name)}")
    if spec.value is not None and lever.read is not None:
        try:
            lever.read(spec)
        except ValueError as error:
            raise BadUsage(f"lever {spec}: {error}. See: {explain(spec.name)}") from error


def _hint(name: str, levers: Mapping[str, Lever]) -> str:
    close = close_names(name, levers, most=3)
    meant = f"Did you mean {' or '.join(close)}? " if close else ""
    return f"{meant}There are {', '.join(levers)}."
