"""What the rules about kernels of a trace have in common: the time of some of the table `kernels`, and what they claim of the ledger."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import KERNELS, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.profiled.marked_steps import per_step
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import Judged
from slowstep.findings import Evidence, Finding
from slowstep.parts import Part, PieceKind
from slowstep.timeline.shapes import read_shapes
from slowstep.units import format_count

# Of an operator's inputs, in a sentence.
SHAPES_SHOWN: Final = 3
SIXTEEN_BIT: Final = ("float16", "bfloat16")


def compute_kernels(m: Measurements) -> pl.DataFrame:
    """The rows of the table `kernels` that the ledger's part `kernels` is made of: all but collectives."""
    return m.device.kernels.filter(pl.col("class") != "collective")


def kernels_ns(m: Measurements, rows: pl.DataFrame) -> Floats:
    """Time of the ledger's part `kernels` that falls to some rows of `compute_kernels`. Shape (steps,), ns.

    They get of each step the share that they have of all kernels' time: streams that work side by side count once, as in the ledger.
    """
    total = float(compute_kernels(m)["total_ns"].sum())
    return np.asarray(per_step(m, KERNELS) * (float(rows["total_ns"].sum()) / total if total else 0.0))


def kernel_claims(rows: pl.DataFrame) -> tuple[Part, ...]:
    """What a finding about these rows of the table `kernels` claims: the pieces of the part `kernels`, by class and precision."""
    kinds = rows.select("class", "precision").unique().sort("class", "precision", nulls_last=True)
    return tuple(piece(KERNELS, PieceKind.KERNELS, *names) for names in kinds.iter_rows())


def gaps_share(m: Measurements) -> float:
    """Share of the window in which the device had nothing to do: what no cause of its gaps can exceed."""
    gaps = m.device.gaps
    return int((gaps["end_ns"] - gaps["start_ns"]).sum()) / max(m.steps.length_ns, 1)


def kernel_rows(m: Measurements, rows: pl.DataFrame, most: int = 3) -> tuple[Evidence, ...]:
    """The costliest kernels as evidence: the share of the window that each takes, and whose they are."""
    worst = rows.sort("total_ns", descending=True).head(most)
    return tuple(
        Evidence(
            name=f"{_short(row['name'])} ({format_count(row['count'], 'run')})",
            value=float(kernels_ns(m, worst[at]).sum()) / max(m.steps.length_ns, 1),
            unit="share of window",
            where=whose(row["operator"], within(row["where"], row["module"]), row["shapes"]),
        )
        for at, row in enumerate(worst.iter_rows(named=True))
    )


def whose(operator: str | None, where: str | None, shapes: str | None) -> str | None:
    """The operator of a kernel with its shapes and function, as far as known: "aten::mm [[64, 512], [512, 30522]] in head (net.py:12)"."""
    known = " ".join(word for word in (operator, first_shapes(shapes)) if word)
    return " in ".join(word for word in (known, where) if word) or None


def within(where: str | None, module: str | None) -> str | None:
    """A function of the user's, and the nn.Module that it called, as far as they are known: "step (train.py:82), Conv2d_3"."""
    return ", ".join(word for word in (where, module) if word) or None


def first_shapes(shapes: str | None) -> str | None:
    """The first tensors' shapes of a list as the trace writes it: many operators take dozens of inputs, and numbers among them."""
    sizes = [shape for shape in read_shapes(shapes) or () if shape]
    more = ", ..." if len(sizes) > SHAPES_SHOWN else ""
    return f"[{', '.join(json.dumps(size) for size in sizes[:SHAPES_SHOWN])}{more}]" if sizes else None


def sixteen_bit_share(rows: pl.DataFrame) -> float | None:
    """Share of the kernels' time that is spent in 16 bit; None where the precision of none is known."""
    known = rows.filter(pl.col("precision").is_not_null())
    total = int(known["total_ns"].sum())
    return int(known.filter(pl.col("precision").is_in(SIXTEEN_BIT))["total_ns"].sum()) / total if total else None


def unless_hidden(finding: Finding, counterfactual: Replayed | None) -> Judged | None:
    """The finding, unless the steps take as long without it: then the device, or the link, was busy with it beside what they wait for."""
    predicted = finding.gain.predicted
    beside = predicted is not None and round(predicted, 2) <= 1.0
    return None if beside else Judged(finding=finding, counterfactual=counterfactual)


def _short(name: str, most: int = 60) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."
