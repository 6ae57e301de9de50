"""The topic `python`: what the interpreter does beside the training's calls, and where the user's functions stand."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.python.concurrent_threads import ConcurrentThreads
from slowstep.analyses.python.functions import Files
from slowstep.analyses.python.garbage import Garbage
from slowstep.faults import MayLack


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonTopic(MayLack):
    """Garbage collection, other threads of the process, and what stacks tell."""

    garbage: Garbage
    concurrent_threads: ConcurrentThreads
    has_stacks: bool
    files: Files  # of the user's functions
