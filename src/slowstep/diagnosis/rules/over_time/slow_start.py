"""It takes long until the first update: imports, data, compiling.

What it sees:
    The launcher's start of the command, and the end of the first update: at least 30 s lie between, and at least a tenth of the whole run.
    They are divided by what is known: what came before the import of the framework, that import, what the script did until it asked for its
    first batch (other imports, indexing data, building the model: by stacks, four a second), the loader's start, the first batches, and
    what the first step takes longer than a usual one, in which a model that is compiled is.
Why it costs:
    It is paid at every start: at each try of a developer, each job of a sweep, each restart after a failure, with accelerators idle.
How the gain is predicted:
    It is not: the start-up lies outside of the window of steps, and shortening it makes no step faster. It is advice.
When it is wrong:
    A first run downloads, compiles or fills caches that later runs find. A recording that was ended early makes the share look large.
What to try:
    Look at the longest part: store the index of the data set, import late what is rarely needed, load the model once, keep compile caches.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.startup_parts import StartupKind, StartupPart
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence
from slowstep.frameworks._remedies import Remedy

NAME = "slow-start"
# Importing torch with its usual companions takes 2 to 10 s; three times that is more than waiting for imports.
SECONDS_AT_LEAST = 30.0
SHARE_AT_LEAST = 0.10


def judge(m: Measurements) -> Answer:
    """Whether the start-up is long, and which part of it."""
    startup = m.over_time.startup
    if startup is None:
        return None
    parts = startup.beyond_a_step
    taken_ns = sum(part.ns for part in parts)
    share = taken_ns / (startup.ns + m.over_time.trained_ns)
    if taken_ns < SECONDS_AT_LEAST * 1e9 or share < SHARE_AT_LEAST:
        return None
    longest = max(parts, key=lambda part: part.ns)
    stage = "compute" if longest.kind is StartupKind.FIRST_STEP or longest.kind.is_compiling else "preprocess"
    title = f"{taken_ns / 1e9:.0f} s pass before the first update, {longest.ns / 1e9:.0f} s of them in: {longest.name}"
    evidence = _evidence(parts, taken_ns, share)
    return advice(NAME, stage, title, evidence, "the start were shorter (no step gets faster)", (_fix(m, longest),))


_STORED = "store what is computed there and load it at the next start"
_IMPORTED_LATE = "import what few runs need only where it is used; where Python's packages lie on a network disk, copy them to a local one"
_KEEP_CACHE = "keep the compiler's cache between runs; compile fewer shapes"


def _fix(m: Measurements, part: StartupPart) -> str:
    if part.kind is StartupKind.IMPORT:
        return _IMPORTED_LATE
    if part.kind.is_compiling:
        return m.training.words.advise(Remedy.KEEP_COMPILED)
    return _KEEP_CACHE if part.kind is StartupKind.FIRST_STEP else _STORED


def _evidence(parts: tuple[StartupPart, ...], taken_ns: int, share: float) -> tuple[Evidence, ...]:
    return (
        Evidence(name="start-up", value=taken_ns / 1e9, unit="s", threshold=SECONDS_AT_LEAST),
        Evidence(name="start-up's share", value=share, unit="share of start-up and training", threshold=SHARE_AT_LEAST),
        *(Evidence(name=part.name, value=part.ns / 1e9, unit="s") for part in parts),
    )


RULE = Rule(name=NAME, stages=("preprocess", "compute"), topics=("over_time", "training"), judge=judge)
