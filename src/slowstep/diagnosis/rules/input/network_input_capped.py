"""The network, or each connection, is too slow for the input.

What it sees:
    The training waits for input at least 5 % of the window while what makes its batches is blocked on something that is no storage, and
    idle less than a fifth of the time (so there is demand), and in the batches whose built-in calls were timed receiving from sockets holds
    at least 20 % of the making. Of that, waiting for the first byte of an answer (Python's own HTTP client, which requests, urllib3 and
    boto3 use) is less than half: what is waited for is the data itself. Whether all connections share one limit shows where the number of
    batches that are made at once changes (ends of epochs, workers with nothing to do): they do where one of n takes surely more than the
    square root of n times as long. Where each is surely slow by itself and more workers hide that, too-few-workers says so, and this rule
    is silent. Where the number hardly changes it may be either, and the report says so.
Why it costs:
    A line, a disk behind it or a server's quota delivers so many bytes per second, to all connections together: workers that ask for more
    at once each get less. A server that paces each connection delivers more to more workers.
How the gain is predicted:
    r is the wait for batches; B is what making batches takes without receiving: their time less what they spend in receives, divided by the
    workers, not below the CPU time of training and of making batches divided by the cores. At worst a fifth of the receiving remains.
When it is wrong:
    Where it is not known which of both limits binds, more workers may gain as much for less: slowstep prove --levers workers=N shows it.
    Receives inside libraries of C++ (some clients of object stores) and other protocols than HTTP cannot be seen: then the answer is
    "blocked for an unknown reason".
What to try:
    Copy or cache the data on this machine before training; compress it or store it at the size that is used; stream from nearer by; more
    workers where each connection is slow by itself.
"""

from __future__ import annotations

from slowstep.analyses.batches.fetch_concurrency import SHARED_FROM
from slowstep.analyses.measurements import Measurements
from slowstep.command_words import prove_levers
from slowstep.diagnosis.evidence.input.input_causes import CAUSE_SHARE, Spared, place, receive_share, sparing
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE, claims, find_side, removable_waits, workers_needed, workers_save
from slowstep.diagnosis.gain import predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import fix_of_its_loader, mock_loader, of_its_loader, workers
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind
from slowstep.reasons import Reason
from slowstep.units import format_share

NAME = "network-input-capped"
# Of what is received, waiting for the first byte of an answer: from a half on it is latency, which more workers hide.
LATENCY_SHARE = 0.5
FIRST_BYTE = "HTTPResponse.begin"
# Workers with nothing to do for longer than this could have asked for more.
IDLE_AT_MOST = 0.20
LEFT_PESSIMISTIC = 0.2
LIMITS = {
    True: "the network's rate decides, not the number of workers",
    False: "the rate of each connection decides",
    None: "the rate of the network, or of each connection, decides",
}


def judge(m: Measurements) -> Answer:
    """Whether a network's rate is what batches wait for."""
    side, received = find_side(m), receive_share(m)
    if isinstance(side, Reason) or received < CAUSE_SHARE or (m.input.demand.idle_share or 0.0) > IDLE_AT_MOST:
        return None
    first_byte = max((f.share for f in m.input.facts.named(FIRST_BYTE)), default=None)
    if first_byte is None or first_byte >= LATENCY_SHARE * received:
        return None
    blocked, _, _ = share_interval(m, removable_waits(m, PartKind.BLOCKED))
    share, low, high = share_interval(m, side.removable_ns)
    together = _shares_a_limit(m)
    number = workers_needed(side, m.input.demand.workers)
    if blocked < WAIT_SHARE or (together is False and workers_save(m, side, number)):
        return None
    assumes = "the data were on this machine, and nothing else about making batches changed"
    spared = Spared(expected=received, pessimistic=(1 - LEFT_PESSIMISTIC) * received, optimistic=received)
    counterfactual = sparing(m, side, spared, assumes, is_cpu=False)
    around = m.input.facts.around(received)
    where = None if around is None else place(m, around)
    who = "the dataset" if around is None else f"{around.name} ({where})"
    evidence = (
        *_receiving(m, received, first_byte, where),
        Evidence(name="waiting for batches", value=share, unit="share of window", threshold=WAIT_SHARE),
        saved_by(m, counterfactual),
        *_rate(m),
        *_together(m),
    )
    finding = Finding(
        rule=NAME,
        stage="read",
        title=f"{who} spends {format_share(received)} of the time to make a batch on receiving data: {LIMITS[together]}",
        opens_with_name=around is not None,
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m),
        evidence=evidence,
        gain=predict(m, counterfactual),
        fixes=_fixes(m, number, together=together),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _receiving(m: Measurements, received: float, first_byte: float, where: str | None) -> tuple[Evidence, ...]:
    return (
        Evidence(name="receiving", value=received, unit="share of making a batch", threshold=CAUSE_SHARE, where=where),
        Evidence(name="waiting for first bytes", value=first_byte, unit="share of making a batch", threshold=LATENCY_SHARE * received),
        Evidence(name="workers idle", value=m.input.demand.idle_share, unit="share of their time", threshold=IDLE_AT_MOST),
    )


def _shares_a_limit(m: Measurements) -> bool | None:
    """Whether all connections share one limit; False where each has its own, None where that is not known."""
    return None if m.input.facts.fetch_concurrency is None else m.input.facts.fetch_concurrency.share_a_limit


def _together(m: Measurements) -> tuple[Evidence, ...]:
    found = m.input.facts.fetch_concurrency
    if found is None:
        return ()
    unit = "(1: by one limit for all, 0: each is by itself)"
    return (Evidence(name="held up by each other", value=found.slows, unit=unit, threshold=SHARED_FROM),)


def _more_workers(m: Measurements, number: int, *, known: bool) -> Fix:
    """What gains where each connection is slow by itself, and tells whether it is where that is not `known`."""
    lever = workers(number)
    tried = m.training.words.advise(Remedy.WORKERS, number) + ("" if known else ", if each connection is slow by itself")
    told = "" if of_its_loader(m, lever) is None else f": {prove_levers(lever)} shows whether it is"
    return fix_of_its_loader(m, tried + told, lever)


def _rate(m: Measurements) -> tuple[Evidence, ...]:
    """What this machine received meanwhile, where its interfaces were read."""
    received = m.input.facts.received
    if received is None:
        return ()
    return (
        Evidence(name="received by this machine", value=received.bytes_per_s / 1e6, unit="MB/s"),
        Evidence(name="spread of single seconds", value=received.spread, unit="share of that rate"),
    )


def _fixes(m: Measurements, workers: int, *, together: bool | None) -> tuple[Fix, ...]:
    bound = mock_loader(m)
    return (
        Fix(text="copy the data to this machine before training, or keep what was received in a local cache", bounded_by=bound),
        *(() if together else (_more_workers(m, workers, known=together is False),)),
        Fix(text="send less: compress the files, or store them at the size that the model takes", bounded_by=bound),
    )


RULE = Rule(name=NAME, stages=("read",), topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"), judge=judge)
