"""Which calls of the script have made its loaders, its optimizers, and a trainer or its settings.

What a lever changes may be an argument of such a call: `slowstep prove` then writes the change down as a patch.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.timing.call_sites import checksum, is_held

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

LOADER: Final = "loader"
SETTINGS: Final = "settings"
OPTIMIZER: Final = "optimizer"
# The settings of a trainer, or the trainer itself, for what is no loader's.
TRAINER: Final = "trainer"


# What is known of things, by their keys.
ByObject = dict[int, tuple[weakref.ref[Any], Any]]


class MadeCalls:
    """Keeps them by the objects that they made, and holds none of these."""

    def __init__(self, recorder: Recorder) -> None:
        self._loaders: ByObject = {}
        # The last loader of each data set, and the call that has made the loader of which a loader is made.
        self._readers: ByObject = {}
        self._copied: ByObject = {}
        self._optimizers: ByObject = {}
        self._settings: list[dict[str, Any]] = []
        self._trainers: list[dict[str, Any]] = []
        self._made_at: defaultdict[tuple[Any, ...], set[int]] = defaultdict(set)
        self._checksums: dict[str, int | None] = {}

    def loader(self, loader: Any, dataset: Any, site: dict[str, Any] | None, place: int, base: type, framework: str) -> None:
        """A loader was made by the call at a site; `place` is the check sum of all calls that led there, `base` its class there."""
        self._forget()
        if site is not None:
            site = self._named(site, LOADER, loader, base, framework)
            self._made_at[_key(site)].add(place)
        before = _of(self._readers, dataset)
        # Trainers make another loader of the one that the script has made.
        if before is not None and (before := before()) is not None and is_held(2, before):
            _keep(self._copied, loader, _of(self._loaders, before))
        _keep(self._loaders, loader, site)
        _keep(self._readers, dataset, weakref.ref(loader))

    def settings(self, settings: Any, site: dict[str, Any] | None, base: type, framework: str) -> None:
        """A trainer's settings were made by the call at a site."""
        if site is not None:
            named = self._named(site, SETTINGS, settings, base, framework)
            self._made_at[_key(named)].add(len(self._settings))
            self._settings.append(named)

    def trainer(self, trainer: Any, site: dict[str, Any] | None, base: type, framework: str) -> None:
        """A trainer was made by the call at a site, and has no settings beside that."""
        if site is not None:
            self._trainers.append(self._named(site, TRAINER, trainer, base, framework))

    def optimizer(self, optimizer: Any, site: dict[str, Any] | None, base: type, framework: str) -> None:
        """An optimizer was made by the call at a site."""
        self._forget()
        _keep(self._optimizers, optimizer, None if site is None else self._named(site, OPTIMIZER, optimizer, base, framework))

    def of(self, loader: Any) -> list[dict[str, Any]]:
        """The calls that may be the one which says how a loader is made, the likeliest first: its own, that of the loader that it was made
        of, that of the settings of a trainer that has made it. As JSON.
        """
        site = _of(self._loaders, loader)
        found = [each for each in (site, _of(self._copied, loader)) if each is not None]
        through = site["through"] if site is not None else []
        settings = [each for each in self._settings if each["framework"] in through]
        if len({_key(each) for each in settings}) == 1:
            found.append(settings[-1])
        return [
            each | {"others": max(len(self._made_at[_key(each)]) - 1, self._other_living(loader) if each is site else 0)} for each in found
        ]

    def of_optimizers(self, optimizers: Sequence[Any]) -> list[dict[str, Any]]:
        """The one call that has made all of these, as JSON; none where several have, or it was not seen."""
        sites = [_of(self._optimizers, each) for each in optimizers]
        if not sites or None in sites or len({_key(site) for site in sites}) > 1:
            return []
        return [sites[0] | {"others": _others(self._optimizers, sites[0], optimizers)}]

    def of_trainer(self) -> list[dict[str, Any]]:
        """The one call that has made the trainers, or their settings, as JSON; none where several have, or it was not seen."""
        sites = [*self._settings, *self._trainers]
        return [sites[-1] | {"made": TRAINER, "others": len(sites) - 1}] if len({_key(site) for site in sites}) == 1 else []

    def _other_living(self, loader: Any) -> int:
        """How many the call that has made a loader has made that are still there beside it: that of each epoch is no other one."""
        site = _of(self._loaders, loader)
        return 0 if site is None else _others(self._loaders, site, [loader])

    def _forget(self) -> None:
        for known in (self._loaders, self._readers, self._copied, self._optimizers):
            for key in [key for key, (made, _) in known.items() if made() is None]:
                del known[key]

    def _named(self, site: dict[str, Any], made: str, thing: Any, base: type, framework: str) -> dict[str, Any]:
        kinds = type(thing).__mro__
        names = [kind.__name__ for kind in kinds[: kinds.index(base) + 1]] if base in kinds else []
        file = site["file"]
        if file not in self._checksums:
            self._checksums[file] = checksum(file)
        return {**site, "made": made, "framework": framework, "names": names, "checksum": self._checksums[file]}


def _key(site: dict[str, Any]) -> tuple[Any, ...]:
    return site["file"], site["line"], site["end_line"], site["end_column"]


def _others(known: ByObject, site: dict[str, Any], things: Sequence[Any]) -> int:
    """How many things that are still there the call at a site has made beside these."""
    living = [made() for made, at in known.values() if at is not None and _key(at) == _key(site)]
    return sum(each is not None and not any(each is thing for thing in things) for each in living)


def _of(known: ByObject, thing: Any) -> Any:
    reference, found = known.get(id(thing), (None, None))
    # An id is used again once its object is gone.
    return found if reference is not None and reference() is thing else None


def _keep(known: ByObject, thing: Any, found: Any) -> None:
    try:
        known[id(thing)] = weakref.ref(thing), found
    except TypeError:  # a list, say
        known.pop(id(thing), None)
