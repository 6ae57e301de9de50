"""What is to be known before workers stay from epoch to epoch, or there are any: they have copies of the data set."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements


def changed_between_epochs(m: Measurements) -> tuple[str, ...]:
    """Attributes of the data set that the script was seen to change; none where nothing was seen."""
    loader = m.input.loader
    return () if loader is None or loader.changed is None else loader.changed


def of_kept_workers(m: Measurements) -> str:
    """What an advice to keep workers adds; nothing where the data set was seen to stay as it was."""
    loader = m.input.loader
    if loader is None or loader.changed == ():
        return ""
    if loader.changed is None:
        return "; workers that stay do not see what is changed in the data set between epochs"
    names = ", ".join(loader.changed)
    shared = "a tensor in shared memory"
    return f", once they are told of {names} ({shared}): the script changes that between epochs, in its own copy of the data set"


def of_their_generators(m: Measurements) -> str:
    """What an advice to have workers adds, where each would draw the same."""
    name = None if m.input.loader is None else m.input.loader.generator
    return "" if name is None else f"; each draws from a copy of {name} that begins alike: seed it for each in worker_init_fn"
