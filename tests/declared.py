"""Rules that fail where they read a topic which they do not declare, so that declarations stay true."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis import law
from slowstep.diagnosis.rule import Answer, Rule


class Undeclared(BaseException):
    """No Exception, so that nothing takes it for a fault of the rule and goes on."""


class SeenByRule(Measurements):
    """Measurements as one rule may read them."""

    def __init__(self, m: Measurements, rule: Rule) -> None:
        super().__init__({}, [])
        self._whole, self._rule = m, rule
        provider = next((provider for provider in rule.providers if provider.knows(m)), None)
        self._declared = frozenset((*rule.topics, *(() if provider is None else provider.topics)))
        # A provider that lacks some is asked for none of them, only whether they are there.
        self._asked = self._declared.union(*(each.topics for each in rule.providers))

    def topic(self, name: str) -> Any:
        self._allow(name, self._declared)
        return self._whole.topic(name)

    def _allow(self, name: str, declared: frozenset[str]) -> None:
        if name not in declared:
            raise Undeclared(f"the rule {self._rule.name} reads the topic {name!r}, which is not among those that it declares")

    @property
    def provided(self) -> frozenset[str]:
        return self._whole.provided.intersection(self._declared)

    def has(self, *topics: str) -> bool:
        for name in topics:
            self._allow(name, self._asked)
        return self._whole.has(*topics)


def judge_as_declared(rule: Rule, m: Measurements) -> Answer:
    """What a rule answers. Raises Undeclared where it reads more than it declares."""
    return rule.judge(SeenByRule(m, rule))


def hold_rules_to_their_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has whoever asks the rules get such as raise Undeclared."""
    held = {name: replace(rule, judge=partial(judge_as_declared, rule)) for name, rule in law.rules().items()}
    monkeypatch.setattr(law, "discover", lambda *_, **__: held)
