"""Experiments in recordings made by hand: steps of every arm, notes of levers, the plan, and what was asked for."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from made_recordings import MS, TRAINER_THREAD
from slowstep.prove.choose import Choice, Untried
from slowstep.prove.experiment import Experiment, SandboxPlace, save
from slowstep.prove.stats.design import make_plan
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.reasons import SAID
from slowstep.record.writing import format as fmt

OVERLAY = SandboxPlace(kind="overlay", claims="no file changed", write_ratio=0.9)
TRAINER = "100-1"


def made_experiment(choices: tuple[Choice, ...], **more: Any) -> Experiment:
    """One that ended as asked for."""
    usual: dict[str, Any] = {"untried": (), "precision": 0.05, "budget_s": 60.0, "place": OVERLAY, "ended_by": "precision"}
    return Experiment(choices=choices, **(usual | more))


def made_plan(choices: tuple[Choice, ...], *, seed: int = 1, step_ms: float = 20.0) -> Plan:
    """The plan that tries them."""
    arms = tuple(Arm(name=str(choice.spec), levers=(choice.spec,)) for choice in choices)
    return make_plan(arms, seed=seed, step_ms=step_ms, budget_s=20.0)


def add_experiment(
    folder: Path,
    experiment: Experiment,
    gains: Mapping[int, float],
    *,
    rounds: int = 12,
    notes: tuple[dict[str, Any], ...] = (),
    step_ms: float = 20.0,
    spread: float = 0.02,
    delay_ms: float = 0.0,
    long_ms: Mapping[int, float] | None = None,
    given_up_after: Mapping[int, int] | None = None,
) -> Plan:
    """Write an experiment into a made recording, at `until_ns` of it; arms have these gains, the others none.

    `notes` are what the levers said; every arm with a gain was ready and has changed something in each step. `given_up_after` are the
    rounds that arms had until they were given up.
    """
    plan = made_plan(experiment.choices, step_ms=step_ms)
    (folder / fmt.PLAN_FILE).write_text(plan.dumps())
    assert experiment.until_ns is not None
    write_steps(
        folder,
        plan,
        gains,
        from_ns=experiment.until_ns,
        rounds=rounds,
        notes=notes,
        step_ms=step_ms,
        spread=spread,
        delay_ms=delay_ms,
        long_ms=long_ms,
        given_up_after=given_up_after,
    )
    save(experiment, folder)
    return plan


def write_steps(
    folder: Path,
    plan: Plan,
    gains: Mapping[int, float],
    *,
    from_ns: int,
    rounds: int,
    notes: tuple[dict[str, Any], ...] = (),
    step_ms: float = 20.0,
    spread: float = 0.02,
    delay_ms: float = 0.0,
    long_ms: Mapping[int, float] | None = None,
    given_up_after: Mapping[int, int] | None = None,
) -> None:
    """What the training's process writes while it walks a plan, from a time on; so much longer is the last step of blocks in `long_ms`."""
    at_ns, records, drawn = from_ns, [], random.Random(0)
    last = {note["arm"]: 0 for note in notes if note["state"] == "not applicable"} | dict(given_up_after or {})
    for block, arm in enumerate(plan.blocks[: rounds * len(plan.arms)]):
        if block // len(plan.arms) >= last.get(arm, rounds):
            continue
        for step in range(plan.steps + 1):
            ns = int(step_ms / gains.get(arm, 1.0) * drawn.uniform(1 - spread, 1 + spread) * MS) + int(delay_ms * MS)
            ns += int((long_ms or {}).get(block, 0.0) * MS) if step == plan.steps else 0
            flags = fmt.SETTLING if step == 0 else 0
            records.append(fmt.RECORD.pack(at_ns, at_ns + ns, block, 16, int(delay_ms * MS), TRAINER_THREAD, flags, arm, fmt.ARM))
            at_ns += ns
    said = [{"arm": arm, "name": each.name, "state": "ready"} for arm, each in enumerate(plan.arms)]
    # After each block, as the training's process says it.
    effects = [(done * plan.steps, arm) for done in range(1, rounds + 1) for arm in gains]
    said += [{"arm": arm, "name": plan.arms[arm].name, "state": "effect", "effect": effect, "facts": {}} for effect, arm in effects]
    path = folder / f"{TRAINER}.rec"
    path.write_bytes(path.read_bytes().rstrip(b"\0").ljust(_whole(path), b"\0") + b"".join(records))
    with (folder / f"{TRAINER}.jsonl").open("a") as file:
        file.writelines(json.dumps({"kind": "lever", **note}) + "\n" for note in (*said, *notes))


def untried(rule: str, reason: str) -> Untried:
    """A finding that nothing tries."""
    return Untried(rule=rule, lever=None, reason=SAID(said=reason))


def _whole(path: Path) -> int:
    """The bytes of a file's finished records."""
    used = len(path.read_bytes().rstrip(b"\0"))
    return -(-used // fmt.RECORD_BYTES) * fmt.RECORD_BYTES
