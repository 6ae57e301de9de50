"""A rule says of which topics it judges, and is asked where these were measured."""

from __future__ import annotations

import pytest

from declared import Undeclared, judge_as_declared
from made_measured_traces import made_measured
from made_measurements import measurements
from slowstep.analyses.measure_recording import MAKERS as RECORDED
from slowstep.analyses.measure_trace import MAKERS as TRACED
from slowstep.diagnosis.engine import rules
from slowstep.diagnosis.rule import Rule


@pytest.mark.parametrize("name", sorted(rules()))
def test_every_rule_is_asked_of_something_that_is_measured(name):
    rule = rules()[name]

    assert any(provided.keys() >= set(rule.topics) for provided in (RECORDED, TRACED))
    assert not set(rule.topics) & set(rule.where_known)


def test_made_measurements_have_the_topics_that_are_measured():
    assert measurements().provided == RECORDED.keys()
    assert made_measured().provided == TRACED.keys()


def test_a_rule_is_not_asked_where_a_topic_of_its_was_not_measured():
    rule = Rule(name="of-device", stages=("compute",), topics=("ledger", "device"), judge=lambda _: None)

    assert rule.is_asked(made_measured())
    assert not rule.is_asked(measurements())


def test_a_topic_that_does_not_exist_cannot_be_declared():
    with pytest.raises(ValueError, match="weather"):
        Rule(name="of-weather", stages=("compute",), topics=("weather",), judge=lambda _: None)


def test_a_rule_that_reads_more_than_it_declares_fails_in_tests():
    rule = Rule(name="greedy", stages=("compute",), topics=("ledger",), judge=lambda m: m.machine.load and None)

    with pytest.raises(Undeclared, match="greedy"):
        judge_as_declared(rule, measurements())


def test_a_rule_that_asks_whether_there_is_what_it_does_not_declare_fails_in_tests():
    rule = Rule(name="curious", stages=("compute",), topics=("ledger",), judge=lambda m: m.has("device") and None)

    with pytest.raises(Undeclared, match="curious"):
        judge_as_declared(rule, measurements())


def test_a_rule_sees_no_topics_but_those_that_it_declares():
    seen = []
    rule = Rule(name="listing", stages=("compute",), topics=("ledger",), where_known=("device",), judge=lambda m: seen.append(m.provided))

    judge_as_declared(rule, measurements())

    assert seen == [{"ledger"}]


def test_a_rule_may_read_what_it_knows_only_of_some():
    rule = Rule(name="either", stages=("compute",), topics=("ledger",), where_known=("device",), judge=lambda m: m.has("device") and None)

    assert judge_as_declared(rule, measurements()) is False
    assert judge_as_declared(rule, made_measured()) is None
