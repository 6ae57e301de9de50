"""Tries many cases, on several cores: `python -m fuzz`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from fuzz.case import Case
from fuzz.many import run
from fuzz.targets import TARGETS
from fuzz.trial import tried


def _replay(line: str) -> int:
    case = Case.parse(line)
    failure = tried(TARGETS[case.target], case).failure
    print(failure or f"{case}: no failure")
    return int(failure is not None)


def main() -> int:
    """0 where nothing failed."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Damage traces and recordings, and diagnose them.")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="what to damage; all without it")
    parser.add_argument("--count", type=int, help="cases of each (default 100 where no --seconds are given)")
    parser.add_argument("--seconds", type=float, help="go on for so long")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--case", help="try one case: a line as it is printed of a failure")
    given = parser.parse_args()
    # Traces whose reading takes long are kept there; those of a fuzzer nobody reads again. One thread each: the cores are busy as it is.
    with tempfile.TemporaryDirectory(prefix="slowstep-fuzz-cache-") as cache:
        os.environ |= {"XDG_CACHE_HOME": cache, "POLARS_MAX_THREADS": "1"}
        if given.case is not None:
            return _replay(given.case)
        count = 100 if given.count is None and given.seconds is None else given.count
        return min(run(given.targets or list(TARGETS), given.start, count, given.seconds, given.processes), 1)


if __name__ == "__main__":
    sys.exit(main())
