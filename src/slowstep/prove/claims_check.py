"""The check of levers that change no number, by their claim: short runs in which the script builds its loader with the lever, beside two
runs as it is, all with one seed.

In the experiment such a lever feeds batches of a second loader, which come in another order: nothing can be compared there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from slowstep.prove.reruns import Say
from slowstep.prove.stats.claimed import compare_claimed
from slowstep.prove.stats.verdicts import GainVerdict
from slowstep.prove.whole_run import MakeExecutor, Ran, RunRequest, WholeRunLimits, WholeRunState, run_once
from slowstep.reason_words import sentence
from slowstep.record.experiment.implementations import can_build
from slowstep.record.experiment.lever import NUMERICS
from slowstep.record.experiment.lever_text import parse_spec

# Those without the lever: where they differ from each other, nothing is claimed of one with it.
PLAIN_RUNS: Final = 2
_SEED: Final = 0


def are_to_be_checked(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The levers that gain something and change only how, not which, batches come."""
    return [row["lever"] for row in rows if row["verdict"] == GainVerdict.PROVED and claims_the_same(row["lever"], row["changes"])]


def claims_the_same(lever: str, changes: Sequence[str]) -> bool:
    """Whether the script would have the same numbers with a lever's arguments where it builds its loader."""
    return NUMERICS not in changes and can_build(parse_spec(lever).name)


def check_claims(
    make: MakeExecutor, levers: Sequence[str], place: int, limits: WholeRunLimits, found: dict[str, dict[str, Any]], say: Say
) -> None:
    """Compare each lever, whose answer is added to `found` when it is known: Ctrl-C leaves out the rest. `place` is where the loader is
    built.
    """
    plain = RunRequest(seed_offset=_SEED, losses=True)
    as_is = [run_once(make, plain, limits) for _ in range(PLAIN_RUNS)]
    for lever in levers:
        say(f"input and losses with and without {lever}")
        found[lever] = _compared(as_is, lever, place, make, limits)


def _compared(as_is: Sequence[Ran], lever: str, place: int, make: MakeExecutor, limits: WholeRunLimits) -> dict[str, Any]:
    runs = list(as_is)
    if all(ran.losses is not None for ran in as_is):
        runs.append(run_once(make, RunRequest(levers=(parse_spec(lever),), loader=place, seed_offset=_SEED, losses=True), limits))
    first, second, *changed = (ran.losses for ran in runs)
    ended = next((ran for ran in runs if ran.state in (WholeRunState.NOT_APPLICABLE, WholeRunState.FAILED)), None)
    if ended is not None or first is None or second is None or not changed or changed[0] is None:
        why = "" if ended is None else f": {ended.state.in_words if ended.reason is None else sentence(ended.reason)}"
        return {"says": f"input and losses could not be compared{why}"}
    return compare_claimed(first, second, changed[0]).as_row()
