"""The next batch is not there when the training asks for it.

What it sees:
    The ledger of a trace charges at least 5 % of the window to waiting for input: time in which the device had nothing to do (without a
    device: in which the training thread did nothing else) and the thread that feeds it stood in a request for the next batch.
    XProf calls 5 % moderate and 20 % high, the Kineto plugin draws the line at 5 %. But XProf called a fast, prefetched pipeline
    input-bound for waits of 0.3 ms: receiving a batch that lies ready takes 1 to 2 ms from a worker, so waits that are shorter
    than 1 ms per request are nobody's fault, unless the training makes its batches itself.
Why it costs:
    Nothing runs on the device until the batch has come.
How the gain is predicted:
    The steps of the trace are replayed with every request for input answered at once.
When it is wrong:
    A trace of the training process does not show what its workers did, so it cannot distinguish reading from preprocessing, and names no
    function. The first steps of an epoch wait for workers that start: the interval of the share shows if it is only they. A profiler
    slows the making of batches down where it happens in the training process.
What to try:
    Record the training with `slowstep run`, which distinguishes reading, decoding, transforms and collating where PyTorch loads. More
    workers, a deeper prefetch; tf.data: .prefetch(tf.data.AUTOTUNE) and num_parallel_calls.
"""

from __future__ import annotations

import re

import polars as pl

from slowstep.analyses.batches.transfer import RECEIVE_NS
from slowstep.analyses.events.parts import INPUT_WAIT
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_INPUT_WAIT
from slowstep.diagnosis.evidence.profiled.marked_steps import per_step, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import no_launches
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "input-wait"
# The lower mark of XProf and the Kineto plugin's only one. Their readings are of requests; here only the part that nothing hides counts.
SHARE = 0.05
OWN_BATCHES = events(Event.REQUEST_ALONE)

NO_REQUESTS = Wording("no-requests", "the trace shows no request for input: {remedy}")
REQUESTS_WITHOUT_LENGTH = Wording(
    "requests-without-length", "the trace gives all requests for input no length: record again, with a newer profiler"
)

RECORD_IT = Fix(text="record it with `slowstep run`: it shows what of reading, decoding, transforms and collating is slow")


def judge(m: Measurements) -> Answer:
    """Whether the next batch is late."""
    wait_ns = per_step(m, INPUT_WAIT)
    share, low, high = share_of_steps(m, wait_ns)
    if share < SHARE:
        return _unseen(m)
    requests = m.device.requests
    late = requests.filter(pl.col("exposed_ns") > 0)
    makes_them = bool(requests.height) and all(re.search(OWN_BATCHES, name) for name in requests["name"].unique().to_list())
    each_ns = float(wait_ns.sum()) / max(late.height, 1)
    if not makes_them and each_ns < RECEIVE_NS:
        return None
    name = requests["name"].mode().sort()[0] if requests.height else None
    counterfactual = Replayed(NO_INPUT_WAIT, assumes="every batch were ready when it is asked for")
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"the training spends {format_share(share)} of the time waiting for its next "
        f"batch{', which it makes itself' if makes_them else ''}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(INPUT_WAIT,),
        evidence=(
            Evidence(name="waiting for input", value=share, unit="share of window", threshold=SHARE, where=name),
            Evidence(name="requests that waited", value=late.height, unit=f"of {requests.height}"),
            Evidence(name="each of them", value=each_ns / 1e6, unit="ms", threshold=None if makes_them else RECEIVE_NS / 1e6),
            Evidence(name="longest request", value=_longest_ms(requests), unit="ms"),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, makes_them),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _unseen(m: Measurements) -> Answer:
    """What little was charged may be little because requests, or what led to a gap, are not in the trace."""
    requests = m.device.requests
    if not requests.height:
        return NotJudged(rule=NAME, reason=NO_REQUESTS(remedy=m.training.words.advise(Remedy.RECORD_REQUESTS)))
    if not (requests["end_ns"] - requests["start_ns"]).max():
        return NotJudged(rule=NAME, reason=REQUESTS_WITHOUT_LENGTH())
    missing = no_launches(m, SHARE) if m.device.seen else None
    return NotJudged(rule=NAME, reason=missing) if missing is not None else None


def _longest_ms(requests: pl.DataFrame) -> float | None:
    return (requests["end_ns"] - requests["start_ns"]).to_numpy().max() / 1e6 if requests.height else None


def _fixes(m: Measurements, makes_them: bool) -> tuple[Fix, ...]:
    words = m.training.words
    if makes_them:
        text = words.advise(Remedy.BATCHES_ASIDE, workers=words.write({Remedy.WORKERS: 4, Remedy.PERSISTENT_WORKERS: True}))
    else:
        text = words.advise(
            Remedy.DEEPER_INPUT, workers=words.name_of(Remedy.WORKERS, "workers"), ahead=words.name_of(Remedy.PREFETCH, "batches ahead")
        )
    return Fix(text=text), RECORD_IT


RULE = Rule(
    name=NAME,
    stages=("preprocess", "read"),
    topics=("completeness", "device", "facts", "ledger", "marks", "replay", "steps", "training"),
    judge=judge,
)
