"""The levers that answer findings, as they are written after `slowstep prove --levers`: rules name them by these, and know no lever itself.

A lever tries a fix where it does to the training what the fix would do, to within what the prediction leaves open. It bounds a fix where it
does more: a loader of cached batches gains at least what any better loader gains.
"""

from __future__ import annotations

from typing import Final

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.importable import import_name
from slowstep.findings import Fix
from slowstep.frameworks import _known
from slowstep.parts import Part, PartKind
from slowstep.record.experiment.implementations import can_be_made
from slowstep.record.experiment.lever_text import parse_spec

MOCK_LOADER: Final = "mock-loader"
PARALLEL_CALLS: Final = "parallel-calls"
CACHE: Final = "cache"
INTERLEAVE: Final = "interleave"
# One is made while another lies ready: as many as each of torch's workers makes by default.
BATCHES_AHEAD: Final = "prefetch=2"
CALLBACKS_OFF: Final = "callbacks-off"
LOGGING_OFF: Final = "logging-off"
VALIDATION_OFF: Final = "validation-off"
CHECKPOINT_OFF: Final = "checkpoint-off"
PERSISTENT_WORKERS: Final = "persistent-workers"
WARM_CACHE: Final = "warm-cache"
RUN_EAGERLY_OFF: Final = "run-eagerly-off"
ANOMALY_OFF: Final = "anomaly-off"
FUSED: Final = "fused"


def workers(count: int) -> str:
    """A loader with so many workers."""
    return f"workers={count}"


def prefetch(count: int) -> str:
    """A loader whose workers each make so many batches ahead."""
    return f"prefetch={count}"


def mock_loader(m: Measurements) -> str | None:
    """A loader of cached batches; None where no lever changes the loader so."""
    return MOCK_LOADER if _changes_it(m, MOCK_LOADER) else None


def parallel_calls(m: Measurements) -> str | None:
    """A pipeline of the framework's own whose maps make several calls at once; None where no lever changes it so."""
    return PARALLEL_CALLS if _changes_it(m, PARALLEL_CALLS) else None


def stored_stages(m: Measurements) -> str | None:
    """A pipeline of the framework's own that stores what is the same in each epoch; None where no lever changes it so."""
    return CACHE if _changes_it(m, CACHE) else None


def inputs_at_once(m: Measurements) -> str | None:
    """A pipeline of the framework's own that reads several inputs at once; None where no lever changes it so."""
    return INTERLEAVE if _changes_it(m, INTERLEAVE) else None


def batches_ahead(m: Measurements) -> str | None:
    """A pipeline of the framework's own that makes batches ahead; None where no lever changes it so."""
    return BATCHES_AHEAD if _changes_it(m, BATCHES_AHEAD) else None


def is_marked(m: Measurements) -> bool:
    """Whether the training's input is the script's own, named by `slowstep.steps`."""
    return m.input.loader is not None and m.input.loader.is_marked


def of_its_loader(m: Measurements, lever: str) -> str | None:
    """A lever that changes the one loader that is waited for most; None where another than the finding's may turn out to be that one, and
    where no lever changes that one so.
    """
    is_sure = m.input.loader is None or m.input.loader.is_surely_most_waited_for
    return lever if is_sure and _changes_it(m, lever) else None


def fix_of_its_loader(m: Measurements, text: str, lever: str, *, bounded_by: str | None = None) -> Fix:
    """A change of the finding's loader, with the lever that tries it; in doubt where that may change another loader."""
    sure = of_its_loader(m, lever)
    return Fix(text=text, lever=sure, bounded_by=bounded_by, lever_in_doubt=lever if sure is None and _changes_it(m, lever) else None)


def _changes_it(m: Measurements, lever: str) -> bool:
    """Whether a lever changes the loader, where there is one: not input of the script's own, nor one whose framework does not make it, nor
    the workers of a stream that each may give all of.
    """
    loader = m.input.loader
    if loader is None or loader.is_marked:
        return loader is None
    spec = parse_spec(lever)
    if loader.divides is False and spec.name == "workers" and max(loader.num_workers, int(spec.value or 0)) > 1:
        return False
    return can_be_made(spec.name, (), loads(m))


def loads(m: Measurements) -> str | None:
    """The framework whose loader feeds the training; None where none does, as where the script names input of its own."""
    loader = m.input.loader
    return None if loader is None or loader.is_marked else loader.framework or _known.DEFAULT


def batch_size(samples: int) -> str:
    """A loader with batches of so many samples."""
    return f"batch-size={samples}"


def threads(count: int) -> str:
    """So many threads for one operation."""
    return f"threads={count}"


def steps_per_execution(steps: int) -> str:
    """So many steps in one call of the framework's."""
    return f"steps-per-execution={steps}"


def seldom(lever: str | None, every: int) -> str | None:
    """The same lever, but one call in so many is left as it is; None of None."""
    return None if lever is None else f"{lever}:every={every}"


def stub(m: Measurements, function: str, file: str | None) -> str | None:
    """A function that does nothing, by its qualified name and its file; None where it cannot be named for importing it."""
    name = import_name(function, file, m.trainer.facts)
    return None if name is None else f"stub={name}"


def stub_of_collate(m: Measurements) -> str | None:
    """A collate function that does nothing; None where it is torch's own, or cannot be named."""
    loader = m.input.loader
    if loader is None or loader.collate is None or loader.collate_is_default:
        return None
    # It is recorded as `module.function`, and either may have more dots.
    parts = loader.collate.split(".")
    for dots in range(1, len(parts)):
        module, function = ".".join(parts[:dots]), ".".join(parts[dots:])
        if (spec := stub(m, function, loader.collate_file)) == f"stub={module}:{function}":
            return spec
    return None


def stub_of(m: Measurements, part: Part) -> str | None:
    """The same of the function that a part of the ledger is; None where it is none."""
    if part.kind not in (PartKind.FUNCTION, PartKind.SAVING_FUNCTION) or part.name is None or part.place is None:
        return None
    return stub(m, part.name, m.python.files.get((part.name, part.place)))
