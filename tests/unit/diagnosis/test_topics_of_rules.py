"""A rule says of which topics it judges, and is asked where these were measured."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from declared import Undeclared, judge_as_declared
from made_measured_traces import made_measured
from made_measurements import measurements
from slowstep.analyses.measure_recording import MAKERS as RECORDED
from slowstep.analyses.measure_trace import MAKERS as TRACED
from slowstep.diagnosis.engine import rules
from slowstep.diagnosis.evidence.profiled.not_shown import NO_WHOLE_STEP
from slowstep.diagnosis.gain import unknown_gain
from slowstep.diagnosis.provider import Details, HeldTime, Provider, Unsure
from slowstep.diagnosis.rule import Rule, judge_provided
from slowstep.findings import Evidence, Fix, NotJudged
from slowstep.parts import BODY


@pytest.mark.parametrize("name", sorted(rules()))
def test_every_rule_is_asked_of_something_that_is_measured(name):
    rule = rules()[name]

    assert any(provided.keys() >= set(rule.topics) for provided in (RECORDED, TRACED))


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
    rule = Rule(name="listing", stages=("compute",), topics=("ledger",), judge=lambda m: seen.append(m.provided))

    judge_as_declared(rule, measurements())

    assert seen == [{"ledger"}]


def held(share, reads=lambda m: None):
    return lambda m: reads(m) or HeldTime(share=share, low=share, high=share, at_least=0.03, details=details)


def details():
    return Details(
        stage="compute",
        title="it is slow",
        claims=(BODY,),
        evidence=(Evidence(name="it", value=1, unit=""),),
        counterfactual=None,
        gain=unknown_gain("it were gone"),
        fixes=(Fix(text="leave it out"),),
    )


def either(of_device, otherwise):
    """A rule with two providers, of which made traces and made recordings have one each."""
    providers = Provider(topics=("device",), find=of_device), Provider(topics=("machine",), find=otherwise)
    judge = partial(judge_provided, rule="either", providers=providers)
    return Rule(name="either", stages=("compute",), topics=("ledger",), providers=providers, judge=judge)


def test_the_provider_is_asked_that_has_its_topics():
    rule = either(held(0.25), held(0.5))

    assert judge_as_declared(rule, made_measured()).finding.share == 0.25
    assert judge_as_declared(rule, measurements()).finding.share == 0.5


def test_what_holds_less_than_is_worth_a_finding_is_none():
    assert judge_as_declared(either(held(0.02), held(0.03)), made_measured()) is None
    assert judge_as_declared(either(held(0.02), held(0.03)), measurements()).finding.share == 0.03


def test_what_a_provider_is_unsure_of_is_not_judged():
    rule = either(lambda m: Unsure(reason=NO_WHOLE_STEP(), change="mark steps"), lambda m: None)

    assert judge_as_declared(rule, made_measured()) == NotJudged(rule="either", reason=NO_WHOLE_STEP(), change="mark steps")
    assert judge_as_declared(rule, measurements()) is None


def test_a_provider_that_reads_the_topics_of_another_fails_in_tests():
    rule = either(held(0.25), held(0.5, lambda m: m.device))

    with pytest.raises(Undeclared, match="either"):
        judge_as_declared(rule, measurements())


def test_a_rule_is_asked_where_one_of_its_providers_has_its_topics():
    rule = either(held(0.25), held(0.5))

    assert rule.is_asked(made_measured())
    assert rule.is_asked(measurements())
    assert not replace(rule, providers=rule.providers[:1]).is_asked(measurements())


def test_a_topic_that_does_not_exist_cannot_be_a_providers():
    with pytest.raises(ValueError, match="weather"):
        Rule(name="of-weather", stages=(), topics=(), providers=(Provider(topics=("weather",), find=held(0.5)),), judge=lambda _: None)


@pytest.mark.parametrize("rule", [rule for rule in rules().values() if rule.providers], ids=lambda rule: rule.name)
def test_every_provider_finds_its_topics_in_something_that_is_measured(rule):
    for provider in rule.providers:
        assert any(provided.keys() >= {*rule.topics, *provider.topics} for provided in (RECORDED, TRACED))
        assert not set(rule.topics) & set(provider.topics)
