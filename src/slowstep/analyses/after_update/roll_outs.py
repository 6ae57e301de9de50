"""Which of the stretches in which models are called again and again, without gradients, are roll-outs: an agent plays, and is not judged.

Agents are put into evaluation mode for that as well (Stable-Baselines3 does), so the mode alone is no sign of a validation.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.python.functions import Path, Stacks, inside, is_evaluating, is_library
from slowstep.analyses.steps.forwards import Forwards, find_forwards
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trainer import Trainer
from slowstep.shares import MOSTLY
from slowstep.timeline.intervals import Ints

# Libraries of environments.
ENVIRONMENTS = re.compile(
    r"[/\\](site|dist)-packages[/\\](gym|gymnasium|gymnax|pettingzoo|envpool|procgen\w*|minigrid|ale_py|dm_env|dm_control|brax|mujoco|"
    r"pybullet\w*|supersuit|highway_env|vizdoom)[/\\]"
)
# Names that people give to playing, and to what they play in.
PLAYING = re.compile(
    r"roll_?out|trajector(y|ies)|episode|experience|(^|[._])(self_?)?play(s|ing)?(_|$)|Env\w*\.(step|reset)$", re.IGNORECASE
)
# Libraries of agents have functions that judge these, too.
JUDGED_BY_LIBRARY = re.compile(r"(^|\.)_?evaluat\w*$", re.IGNORECASE)
# An agent sees as many samples at a time as it has environments. A validation keeps no graph: its batches need not be smaller than the
# training's.
SMALLER = 0.5


def forwards_of(trainer: Trainer, stacks: Stacks) -> Forwards:
    """The forwards of a training, with what is known of its roll-outs."""
    forwards = find_forwards(trainer.spans, trainer.body_end_ns)
    return mark_roll_outs(forwards, trainer.spans, stacks, trainer.waits["start_ns"].to_numpy())


def mark_roll_outs(forwards: Forwards, spans: pl.DataFrame, stacks: Stacks, input_ns: Ints) -> Forwards:
    """The same, with the stretches that are known to be roll-outs: by what runs in them, else by the number of samples in each call.

    `input_ns`: when the training's own loaders were asked for batches, as for prompts; a validation reads another loader.
    """
    count = len(forwards.apart_start_ns)
    if not count:
        return forwards
    taken = inside(stacks, forwards.apart_start_ns, forwards.apart_end_ns)
    stretch = np.searchsorted(forwards.apart_start_ns, stacks.time_ns[taken], side="right") - 1
    kinds = [_kind(path) for _, path in stacks.paths(taken.tolist())]
    judged, played = (np.bincount(stretch[[kind == wanted for kind in kinds]], minlength=count) for wanted in ("judged", "played"))
    known = float(judged.sum() + played.sum())
    # A share of the stacks in all stretches of which it is known.
    usual = bool(played.sum() >= MOSTLY * known) if known else False
    prompted = _prompted(forwards, input_ns)
    plays = np.where(judged + played > 0, played > judged, _are_small(forwards, spans) | prompted | usual)
    return replace(forwards, apart_plays=plays, apart_evaluating=forwards.apart_evaluating & ~plays)


def _prompted(forwards: Forwards, input_ns: Ints) -> NDArray[np.bool_]:
    """Of each stretch, whether the training's input was asked for between its calls."""
    asked = np.sort(input_ns)
    return np.asarray(np.searchsorted(asked, forwards.apart_end_ns) > np.searchsorted(asked, forwards.apart_start_ns))


def _kind(path: Path) -> str | None:
    if is_evaluating(path) or any(JUDGED_BY_LIBRARY.search(frame.function) for frame in path if is_library(frame)):
        return "judged"
    plays = any(ENVIRONMENTS.search(frame.file) or PLAYING.search(frame.function) for frame in path)
    return "played" if plays else None


def _are_small(forwards: Forwards, spans: pl.DataFrame) -> NDArray[np.bool_]:
    """Of each stretch, whether its calls are given much fewer samples than those with gradients; not so where that is unknown."""
    rows = spans.filter(pl.col("kind") == "forward", pl.col("samples") > 0)
    trained = rows.filter(pl.col("gradients").fill_null(True))["samples"].median()
    rows = rows.filter(~pl.col("gradients").fill_null(True))
    at = np.searchsorted(forwards.apart_start_ns, rows["start_ns"].to_numpy(), side="right") - 1
    samples: Floats = rows["samples"].to_numpy().astype(np.float64)
    within = (at >= 0) & (rows["start_ns"].to_numpy() < np.append(forwards.apart_end_ns, 0)[at])
    means = np.bincount(at[within], weights=samples[within], minlength=len(forwards.apart_start_ns))
    counts = np.bincount(at[within], minlength=len(forwards.apart_start_ns))
    mean = np.divide(means, counts, out=np.full(len(counts), np.inf), where=counts > 0)
    return np.asarray(mean < SMALLER * float(trained)) if isinstance(trained, (int, float)) else np.zeros(len(counts), np.bool_)
