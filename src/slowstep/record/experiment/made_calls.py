"""Which calls of the script have made its loaders, and the settings of a trainer that makes loaders by itself.

What a lever changes may be an argument of such a call: `slowstep prove` then writes the change down as a patch.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.timing.call_sites import checksum, is_held

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

LOADER: Final = "loader"
SETTINGS: Final = "settings"


# What is known of things, by their keys.
ByObject = dict[int, tuple[weakref.ref[Any], Any]]


class MadeCalls:
    """Keeps them by the objects that they made, and holds none of these."""

    def __init__(self, recorder: Recorder) -> None:
        self._loaders: ByObject = {}
        # The last loader of each data set, and the call that has made the loader of which a loader is made.
        self._readers: ByObject = {}
        self._copied: ByObject = {}
        self._settings: list[dict[str, Any]] = []
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

    def _other_living(self, loader: Any) -> int:
        """How many the call that has made a loader has made that are still there beside it: that of each epoch is no other one."""
        site = _of(self._loaders, loader)
        living = [made() for made, at in self._loaders.values() if at is not None and site is not None and _key(at) == _key(site)]
        return sum(each is not None and each is not loader for each in living)

    def _forget(self) -> None:
        for known in (self._loaders, self._readers, self._copied):
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


def _of(known: ByObject, thing: Any) -> Any:
    reference, found = known.get(id(thing), (None, None))
    # An id is used again once its object is gone.
    return found if reference is not None and reference() is thing else None


def _keep(known: ByObject, thing: Any, found: Any) -> None:
    try:
        known[id(thing)] = weakref.ref(thing), found
    except TypeError:  # a list, say
        known.pop(id(thing), None)
