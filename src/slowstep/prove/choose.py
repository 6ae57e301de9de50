"""Which levers are tried: those that the findings name, those that were asked for, or all. Pure: from rows of the report to arms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

from slowstep.parts import PartKind
from slowstep.prove.stats.plan import Arm
from slowstep.reasons import Reason, Wording
from slowstep.record.experiment.lever import Lever, LeverSpec
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.framework import steering_callbacks

MAIN: Final = "__main__"
_OF_FUNCTIONS: Final = ("stub", "swap")
CALLBACKS_OFF: Final = "callbacks-off"


def script_names(run: Mapping[str, Any]) -> frozenset[str]:
    """The names by which the script's module goes beside `__main__`, as `levers/_calls/targets.py` knows them: that of its file, which the
    run is called by, and that given to `python -m`. `run` is the report's.
    """
    names = {run["name"]} if run.get("name") else set()
    for word, module in pairwise(run.get("command") or ()):
        if word == "-m":
            plain = module.removesuffix(".__main__")
            names |= {module, plain, plain.rpartition(".")[2]}
    return frozenset(names)


def canonical(spec: LeverSpec, mains: frozenset[str]) -> LeverSpec:
    """The same lever, its functions by the one name that the findings use: `__main__` for what is the script's."""
    if spec.name not in _OF_FUNCTIONS or spec.value is None:
        return spec
    functions = [function.partition(":") for function in spec.value.split("=")]
    return replace(spec, value="=".join(f"{MAIN if name in mains else name}{colon}{path}" for name, colon, path in functions))


# `fix`: what the finding's predicted gain is of. `bound`: does more than that fix, so the fix gains at most as much. `other`: neither.
Role = Literal["fix", "bound", "other"]
ReportRow = Mapping[str, Any]

# Of what the findings name: a budget of a minute is for six levers.
MOST_CHOSEN: Final = 6
NO_LEVER: Final = Wording("no-lever", "change it in the script and compare")
NAME_IT: Final = Wording("lever-in-doubt", "several loaders are read; name {lever} to test it on the one that the training waits for most")
ANOTHER_LOADER: Final = Wording(
    "another-loader", "several loaders are read, and {lever} changes the one that the training waits for most, which may be another"
)
NOT_ASKED: Final = Wording("not-asked-for", "not asked for")
NO_ROOM: Final = Wording("too-many-levers", f"{MOST_CHOSEN} levers at most are tested, and others promise more; name it with --levers")
NO_ROOM_ONE_BY_ONE: Final = Wording(
    "too-many-callbacks", f"{MOST_CHOSEN} callbacks at most are tested, and others took longer; name it with --levers"
)
STEERING: Final = Wording(
    "steering-callback", "it controls the training or writes checkpoints; name it with --levers to test leaving it out"
)
NO_VALUE: Final = Wording("no-value", "its value is not known: give one with --levers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A lever to try: for which finding, and what its gain says of that finding's fix."""

    spec: LeverSpec
    role: Role = "other"
    rule: str | None = None
    changes_numerics: bool = False

    @property
    def name(self) -> str:
        """The lever as it is written on the command line."""
        return str(self.spec)


@dataclass(frozen=True, kw_only=True, slots=True)
class Untried:
    """A finding or lever that no arm tries, and why."""

    rule: str | None
    lever: str | None
    reason: Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What is tried, in the order of the arms, and what is not."""

    choices: tuple[Choice, ...]
    untried: tuple[Untried, ...]

    @property
    def arms(self) -> tuple[Arm, ...]:
        """An arm for each choice; those without levers come before them in the plan."""
        return tuple(Arm(name=choice.name, levers=(choice.spec,)) for choice in self.choices)


def choose_named(findings: Sequence[ReportRow], levers: Mapping[str, Lever], unjudged: Sequence[ReportRow] = ()) -> Chosen:
    """The levers that the findings name: first those that are a first fix, then bounds, then other fixes.

    Where they name none, those that would tell what the rules in `unjudged` could not.
    """
    named = [choice for choice in named_by(findings) if choice.spec.name in levers]
    if not named:
        named = [Choice(spec=parse_spec(row["lever"])) for row in unjudged if row.get("lever") and not row.get("advisory")]
    ranked = sorted(named, key=lambda choice: ("fix", "bound", "other").index(choice.role))
    kept = ranked[:MOST_CHOSEN]
    left = [Untried(rule=choice.rule, lever=choice.name, reason=NO_ROOM()) for choice in ranked[MOST_CHOSEN:]]
    return Chosen(choices=tuple(kept), untried=(*left, *_without(findings, ranked, NO_LEVER())))


def choose_asked(specs: Sequence[LeverSpec], report: ReportRow, levers: Mapping[str, Lever]) -> Chosen:
    """The levers that were asked for, with what the findings say of them, and with values that were left out filled in."""
    named, mains = list(named_by(report["findings"])), script_names(report["run"])
    choices: dict[str, Choice] = {}
    untried: list[Untried] = []
    one_by_one = [_one_by_one(spec, report) for spec in specs]
    untried += [each for _, left in one_by_one for each in left]
    for spec in (each for wanted, _ in one_by_one for each in wanted):
        found = _matching(spec, named, report["run"], levers[spec.name], mains)
        # Asked for by two names it is one lever.
        choices |= {str(canonical(choice.spec, mains)): choice for choice in found}
        if not found:
            untried.append(Untried(rule=None, lever=str(spec), reason=NO_VALUE()))
    left = _without(report["findings"], choices.values(), NOT_ASKED())
    return Chosen(choices=tuple(choices.values()), untried=(*untried, *left))


def choose_all(report: ReportRow, levers: Mapping[str, Lever]) -> Chosen:
    """Every lever there is: as the findings name it, else with a usual value; those that have no value either way are not tried."""
    named = [choice.spec for choice in named_by(report["findings"])]
    return choose_asked([spec for name in levers for spec in _forms(name, named)], report, levers)


def _forms(name: str, named: Sequence[LeverSpec]) -> list[LeverSpec]:
    """A lever as the findings name it; callbacks are left out one by one in any case."""
    forms = [] if name == CALLBACKS_OFF else [spec for spec in named if spec.name == name]
    return forms or [LeverSpec(name=name)]


def named_by(findings: Sequence[ReportRow]) -> Iterator[Choice]:
    """Levers of the findings' fixes, in their order; a lever that several name is the first one's."""
    seen: set[str] = set()
    for finding in findings:
        for number, fix in enumerate(finding["fixes"]):
            roles: tuple[tuple[str | None, Role], ...] = (
                (fix["lever"], "other" if number else "fix"),
                (fix.get("bounded_by"), "other" if number else "bound"),
            )
            for text, role in roles:
                if text is not None and text not in seen:
                    seen.add(text)
                    numerics = bool(fix["changes_numerics"]) and role != "bound"
                    yield Choice(spec=parse_spec(text), role=role, rule=finding["rule"], changes_numerics=numerics)


def _one_by_one(spec: LeverSpec, report: ReportRow) -> tuple[list[LeverSpec], list[Untried]]:
    """Callbacks that are to be left out without saying which: each by itself, those that took most time. What was asked for otherwise is
    as it was asked for, and so it is where no callback took a time worth a line of the ledger.
    """
    seen = _callbacks_seen(report["ledger"]) if spec.name == CALLBACKS_OFF and spec.value is None else ()
    each = [replace(spec, value=name) for name in seen if not _steers(name)]
    if not each:
        return [spec], []
    steering = [Untried(rule=None, lever=f"{CALLBACKS_OFF}={name}", reason=STEERING()) for name in seen if _steers(name)]
    left = [Untried(rule=None, lever=str(one), reason=NO_ROOM_ONE_BY_ONE()) for one in each[MOST_CHOSEN:]]
    return each[:MOST_CHOSEN], [*left, *steering]


def _steers(name: str) -> bool:
    """Whether a callback is, by its name, one that the lever leaves as it is: it steers the training, or writes checkpoints."""
    return name in steering_callbacks() or "Checkpoint" in name or name.endswith(("EarlyStopping", "EarlyStoppingCallback"))


def _callbacks_seen(ledger: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The classes of the callbacks that were seen at work.

    As `callbacks-off` takes them, most time first: of `Plot.on_train_batch_end` it is `Plot`.
    """
    shares: defaultdict[str, float] = defaultdict(float)
    for part in (part for row in ledger for part in row["parts"]):
        if part["kind"] in (PartKind.CALLBACK, PartKind.PROGRESS_BAR):
            shares[part["subject"].partition(".")[0]] += part["share"] or 0.0
    return tuple(sorted(shares, key=lambda name: -shares[name]))


def _matching(spec: LeverSpec, named: Sequence[Choice], run: ReportRow, lever: Lever, mains: frozenset[str]) -> list[Choice]:
    """What the findings say of a lever, by what it means and not by how it is written."""
    exact = [replace(choice, spec=spec) for choice in named if canonical(choice.spec, mains) == canonical(spec, mains)]
    if exact or spec.value is not None:
        return exact or [_in_place(spec, named, mains) or _near(spec, named, mains)]
    if lever.takes is None or lever.takes_optional:
        # Complete as it is: what a finding names may be another form of it, and nobody asked for that.
        return [_near(spec, named, mains)]
    same = [choice for choice in named if choice.spec.name == spec.name and spec.every == 1]
    if same:
        return same
    value = USUAL[spec.name](run) if spec.name in USUAL else None
    return [] if value is None else [Choice(spec=LeverSpec(name=spec.name, value=value, every=spec.every))]


def _in_place(spec: LeverSpec, named: Sequence[Choice], mains: frozenset[str]) -> Choice | None:
    """Code in place of a finding's function: its fix, where that is faster code, which leaving the function out only bounds; else, where
    the fix is to call it more seldom, an alternative to that.
    """
    if spec.name != "swap" or spec.value is None:
        return None
    stub = canonical(LeverSpec(name="stub", value=spec.value.partition("=")[0]), mains)
    found = next((choice for choice in named if canonical(choice.spec, mains) == stub), None)
    return None if found is None else Choice(spec=spec, role="fix" if found.role == "bound" else "other", rule=found.rule)


def _near(spec: LeverSpec, named: Sequence[Choice], mains: frozenset[str]) -> Choice:
    """A lever beside the finding that names it with another value, or for another share of the calls. Where that is a fix that leaves out
    some of them, leaving out all is a bound on it.
    """
    wanted, others = canonical(spec, mains), [(choice, canonical(choice.spec, mains)) for choice in named]
    found = next(((choice, other) for choice, other in others if other.name == wanted.name and _is_close(other, wanted)), None)
    if found is None:
        return Choice(spec=spec)
    choice, other = found
    does_more = choice.role == "fix" and other.value == wanted.value and other.every > wanted.every == 1
    return Choice(spec=spec, role="bound" if does_more else "other", rule=choice.rule)


def _is_close(one: LeverSpec, other: LeverSpec) -> bool:
    """Whether two values are of one kind: numbers are, the names of two functions are not."""
    return one.value == other.value or all(value is not None and value.isdecimal() for value in (one.value, other.value))


def _without(findings: Sequence[ReportRow], choices: Iterable[Choice], reason: Reason) -> list[Untried]:
    """Findings that claim time and that no choice is for; advice claims none, needing no proof. `reason` is that of those with a lever."""
    chosen = list(choices)
    tried, names = {choice.rule for choice in chosen}, {choice.name for choice in chosen}
    left = [row for row in findings if row["claims"] and row["rule"] not in tried]
    return [Untried(rule=row["rule"], lever=None, reason=reason if _names_a_lever(row) else _without_lever(row, names)) for row in left]


def _without_lever(finding: ReportRow, tried: set[str]) -> Reason:
    """Why no lever is chosen for a finding that names none: there is none, or it may change another loader than the finding's."""
    lever = next((fix["lever_in_doubt"] for fix in finding["fixes"] if fix.get("lever_in_doubt")), None)
    if lever is None:
        return NO_LEVER()
    return (ANOTHER_LOADER if lever in tried else NAME_IT)(lever=lever)


def _names_a_lever(finding: ReportRow) -> bool:
    return any(fix["lever"] or fix.get("bounded_by") for fix in finding["fixes"])


def _workers(run: ReportRow) -> str:
    # The first worker takes the making of batches off the training thread; from then on, twice as many are what people try.
    return str(max(2 * (run.get("num_workers") or 0), 1))


def _batch_size(run: ReportRow) -> str | None:
    size = run.get("batch_size")
    return None if size is None else str(round(2 * size))


def _threads(run: ReportRow) -> str | None:
    cores = run.get("cores")
    return None if cores is None else str(max(int(cores), 1))


# What is tried where neither the user nor a finding says with which value.
USUAL: Final[dict[str, Callable[[ReportRow], str | None]]] = {
    "workers": _workers,
    "batch-size": _batch_size,
    "threads": _threads,
    # PyTorch's default is 2.
    "prefetch": lambda run: "4",
    "autocast": lambda run: "bf16",
    # What is between two steps is then a sixteenth of it.
    "steps-per-execution": lambda run: "16",
}
