"""Which framework trains, by files or names that only its own training loop has; torch where it is not known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache

from slowstep.frameworks._events import BatchInputs, Event, Operator, TraceEvents
from slowstep.frameworks._profilers import OF_PROFILERS
from slowstep.frameworks._words import Code, Named, Words
from slowstep.parts import PartKind
from slowstep.registry import discover

# Where nothing shows which framework trains.
DEFAULT = "torch"
# Where no framework has any: there is no text without an end.
_NOTHING = r"$."


def all_words() -> dict[str, Words]:
    """The words of all frameworks, by name."""
    return discover("slowstep.frameworks", "WORDS", Words, inside="outside.words")


def plain() -> Words:
    """The words of a loop of the script's own."""
    return all_words()[DEFAULT]


@cache
def code(which: Code) -> re.Pattern[str]:
    """What finds such code of any framework, in the path of a file."""
    return _any_of(words.code[which] for words in all_words().values() if which in words.code)


@cache
def named(which: Named) -> re.Pattern[str]:
    """What finds such functions of any framework, by their names."""
    return _any_of(words.names[which] for words in all_words().values() if which in words.names)


def packages() -> frozenset[str]:
    """The folders in which frameworks, and what is made for them, are installed."""
    return frozenset().union(*(words.packages for words in all_words().values()))


def spans() -> dict[str, PartKind]:
    """What hooks of any framework call spans that have no other name, and of which kind these are."""
    return {name: kind for words in all_words().values() for name, kind in words.spans.items()}


def does_for_less(span: str) -> str | None:
    """What does for less what a call of a framework's does by which its hooks name a span; None of any other span."""
    return next((words.advise(words.spared[span]) for words in all_words().values() if span in words.spared), None)


def device_of(facts: Mapping[str, object]) -> str | None:
    """Where a framework computes that has written these facts into a recording; None where they do not say."""
    return next((device for words in all_words().values() for fact, device in words.devices.items() if facts.get(fact)), None)


@cache
def all_trace_events() -> dict[str, TraceEvents]:
    """What is known of the events of all frameworks in traces, by name."""
    return discover("slowstep.frameworks", "TRACE_EVENTS", TraceEvents, inside="outside.trace_events")


@cache
def events(*which: Event) -> str:
    """What finds such events of any framework, by their names."""
    known = [events.patterns[each] for events in all_trace_events().values() for each in which if each in events.patterns]
    return "|".join(f"(?:{pattern})" for pattern in known) or _NOTHING


def operators() -> dict[str, Operator]:
    """What the operators of all frameworks take, by name."""
    return {name: operator for events in all_trace_events().values() for name, operator in events.operators.items()}


def batch_inputs() -> BatchInputs:
    """The operators of all frameworks by which a batch's size is told."""
    known = [events.batches for events in all_trace_events().values()]
    return BatchInputs(
        samples={name: place for each in known for name, place in each.samples.items()},
        rows=frozenset().union(*(each.rows for each in known)),
        moves=frozenset().union(*(each.moves for each in known)),
    )


def words_of_loop(files: Iterable[str], trains: str = DEFAULT) -> Words:
    """The words of the framework that has one of the files in its training loop; else of that which `trains`, be it none."""
    there = list(files)
    otherwise = all_words().get(trains) or Words(name=trains, title=trains, arguments={})
    return _first(lambda words: words.loop is not None and any(map(words.loop.search, there)), otherwise)


def words_of_marks(is_there: Callable[[str], bool], otherwise: Words) -> Words:
    """The words of the framework that a trace names: `is_there` says whether a pattern finds one of the trace's names."""
    return _first(lambda words: words.marks is not None and is_there(words.marks.pattern), otherwise)


def words_of_profiler(framework: str | None, profiler: str | None = None) -> Words:
    """The words of the framework whose profiler it was, by name or title, and of a `profiler` that is no framework's.

    Where no framework is told, any may train: plain words come with those of all others in which the loop is the script's own.
    """
    called = (framework or "").lower()
    own = [words for words in all_words().values() if words.loop is None]
    found = next((words for words in own if called in (words.name, words.title.lower())), None)
    if found is None:
        found = replace(plain(), others=tuple(words for words in own if words.name != DEFAULT))
    return replace(found, profiler=OF_PROFILERS[profiler]) if profiler in OF_PROFILERS else found


def shows(framework: str | None, event: Event) -> bool | None:
    """Whether such events have names in traces of a framework, which is known by its name or title; None where it is not known."""
    own = words_of_profiler(framework)
    return None if own.others else own.name in all_trace_events() and event in all_trace_events()[own.name].patterns


def _first(trains: Callable[[Words], bool], otherwise: Words) -> Words:
    return min(filter(trains, all_words().values()), key=lambda words: words.beneath, default=otherwise)


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or _NOTHING)
