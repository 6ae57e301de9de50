"""Validation takes a larger share of the time than it usually does in training.

What it sees:
    At least three validations in the window (another loader than the training's is read between updates), which hold at least 15 % of it;
    where there is no more than one for each pass over the training data, at least a third. Usual practice is one pass over a fifth of the
    data after each pass over the other four fifths, forward only, which is a third of a training step: (1/5) / (4/5) / 3 is 8 %. Twice
    that is the threshold; even as many validation samples as training samples, once per epoch, make only a quarter.
Why it costs:
    While the model is evaluated it does not train, and neighbouring validations say nearly the same.
How the gain is predicted:
    Every second validation is left out: r is half of the measured time of all, spread over the steps. B is what the loader's workers need
    per step.
When it is wrong:
    Early stopping or a schedule may need each of them; whether they do is not known here. A validation that is itself slow (its loader has
    no workers) can be made faster instead.
What to try:
    Validate every 2k steps instead of every k, on a fixed part of the validation data, or with workers, a larger batch and no gradients.
"""

from __future__ import annotations

from dataclasses import replace

from slowstep.analyses.gaps import VALIDATION
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.lever_specs import VALIDATION_OFF, seldom
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.diagnosis.trainer_side import WORSE_BESIDE, delay_share, producers_beside_ns
from slowstep.findings import Evidence, Finding, Fix

NAME = "frequent-validation"
FEWEST = 3
# Twice the usual 8 %, see above.
SHARE_AT_LEAST = 0.15
SHARE_ONCE_AN_EPOCH = 1 / 3


def judge(m: Measurements) -> Answer:
    """Whether validation takes more than usual, and what half as many would gain."""
    event = m.over_time.event("validation")
    if event is None or event.count < FEWEST or event.every_steps is None:
        return None
    share, low, high = share_interval(m, event.ns)
    epochs = m.over_time.restarts.count
    # The window's ends cut off one of either: two more validations than epochs are more than one for each.
    threshold = SHARE_ONCE_AN_EPOCH if event.count <= epochs + 1 else SHARE_AT_LEAST
    if share < threshold:
        return None
    removed = event.ns / 2
    beside = producers_beside_ns(m, spared_cpu_ns=float(removed.mean()))
    case = Case(removed_ns=removed, beside_ns=beside, delay_share=delay_share(m, event.part))
    worse = replace(case, beside_ns=WORSE_BESIDE * beside)
    every = round(event.every_steps)
    words = f"validation every {2 * every} steps, each as long as now"
    counterfactual = Counterfactual(assumes=words, expected=case, worse=worse, better=case)
    finding = Finding(
        rule=NAME,
        stage="output",
        title=f"validation every {every} steps takes {event.each_ns / 1e6:.0f} ms each, {share:.0%} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=(VALIDATION,),
        evidence=(
            Evidence(name="validations", value=event.count, unit="in the window", threshold=FEWEST),
            Evidence(name="steps between them", value=every, unit="steps"),
            Evidence(name="passes over the training data", value=epochs, unit="begun in the window"),
            Evidence(name="one validation", value=event.each_ns / 1e6, unit="ms"),
            Evidence(name="validating", value=share, unit="share of window", threshold=threshold),
            Evidence(name="removed per step", value=float(event.ns.mean()) / 2e6, unit="ms"),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=f"validate every {2 * every} steps", lever=seldom(VALIDATION_OFF, 2)),
            Fix(text="validate on a fixed part of the data, with workers, a larger batch and torch.inference_mode()"),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


RULE = Rule(name=NAME, stages=("output",), judge=judge)
