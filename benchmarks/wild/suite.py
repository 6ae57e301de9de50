"""The trainings of the wild suite: a script and what is true of it, one pair of files each."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Packages of which one is in `needs` where a training is not written for PyTorch alone.
OTHER_FRAMEWORKS = frozenset({"jax", "keras", "tensorflow"})
FOLDERS = {False: HERE / "cases", True: HERE / "blind"}
STATES = ("bottleneck", "healthy")


class BadCase(Exception):
    """A case's file does not say what it has to, or says what its script does not hold."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training. Of a healthy one nothing is planted, and the fields after `stages` are empty.

    `stages` are all that are right: a thing that the definitions leave to two stages has both. `line` is a regular expression of the
    source line that costs the time. A report names the cause by the function, by that line, by one of `words`, or by a rule of `rules`,
    whose very name says it. Rules of `alike` advise as first fix what `--fixed` does, so that their gain is the true one.
    """

    name: str
    script: Path
    source: str | None
    mechanism: str
    blind: bool
    needs: tuple[str, ...]
    state: str
    stages: tuple[str, ...]
    function: str | None
    line: str | None
    rules: tuple[str, ...]
    words: tuple[str, ...]
    alike: tuple[str, ...]
    same_numbers: bool

    @property
    def line_numbers(self) -> tuple[int, ...]:
        """Where in the script the marked line stands."""
        if self.line is None:
            return ()
        return tuple(i for i, text in enumerate(self.script.read_text().splitlines(), start=1) if re.search(self.line, text))

    @property
    def pytorch_alone(self) -> bool:
        """Whether no other framework is in it, Keras on PyTorch included."""
        return OTHER_FRAMEWORKS.isdisjoint(self.needs)

    @property
    def missing(self) -> tuple[str, ...]:
        """Packages that the script needs and this Python has not."""
        return tuple(package for package in self.needs if importlib.util.find_spec(package) is None)


def read_case(path: Path) -> Case:
    """A case from its TOML file. Raises `BadCase`."""
    raw = tomllib.loads(path.read_text())
    try:
        case = to_case(path, raw, raw["truth"])
    except (KeyError, TypeError) as error:
        raise BadCase(
            f"{path.name}: {error!r} is missing or of another type than expected; benchmarks/wild/README.md says the form"
        ) from error
    problems = wrong_with(case)
    if problems:
        raise BadCase(f"{path.name}: {'; '.join(problems)}")
    return case


def to_case(path: Path, raw: dict[str, Any], truth: dict[str, Any]) -> Case:
    return Case(
        name=path.stem,
        script=path.with_suffix(".py"),
        source=raw.get("source"),
        mechanism=raw["mechanism"].strip(),
        blind=raw["blind"],
        needs=tuple(raw.get("needs", ())),
        state=truth["state"],
        stages=tuple(truth.get("stages", ())),
        function=truth.get("function"),
        line=truth.get("line"),
        rules=tuple(truth.get("rules", ())),
        words=tuple(truth.get("words", ())),
        alike=tuple(truth.get("alike", ())),
        same_numbers=truth["same_numbers"],
    )


def wrong_with(case: Case) -> list[str]:
    """Every way in which a case contradicts itself or its script, in words."""
    found = []
    if not case.script.is_file():
        return [f"there is no {case.script.name} beside it"]
    if case.state not in STATES:
        found.append(f"state is {case.state!r}, expected one of {', '.join(STATES)}")
    if case.state == "bottleneck" and not (case.stages and case.source and (case.line or case.rules)):
        found.append("a bottleneck needs stages, a source, and a line or rules that say the cause")
    if case.line and not case.line_numbers:
        found.append(f"no line of the script matches {case.line!r}")
    if case.function and f"def {case.function.rpartition('.')[2]}(" not in case.script.read_text():
        found.append(f"the script defines no {case.function}")
    return found


def read_cases(*, blind: bool) -> list[Case]:
    """All cases of one kind, by name."""
    return [read_case(path) for path in sorted(FOLDERS[blind].glob("*.toml"))]
