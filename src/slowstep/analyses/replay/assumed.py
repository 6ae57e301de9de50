"""Quantities that scenarios assume: how much faster kernels and copies become, and what cannot be taken away.

Each has its source beside it, or in `slowstep.calibration` where it was measured; "assumed" stands where there is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from slowstep.calibration import loading


@dataclass(frozen=True, slots=True)
class Assumed:
    """A quantity as expected, in the better and in the worse case."""

    expected: float
    optimistic: float
    pessimistic: float


# Peak rates by NVIDIA's and AMD's data sheets, dense, in TFLOP/s: 16 bit on Tensor (matrix) cores, float32 without TF32, float64, and the
# 16-bit rate of the ordinary cores; then the host link's generation of PCIe. V100 SXM2, T4, A100, A10, A30, A40, L4, L40S, L40, H100 SXM
# (the PCIe card has the same ratios), H200, HGX B200 (data sheets); A10G (the lowest of what public tables give: it has no sheet of its
# own); RTX 3090 and 4090 (architecture white papers GA102, Ada: with float32 sums, as trainings have them); MI250X, MI300X (data sheets:
# matrix rates; their ordinary cores' rate is assumed the same, so that shapes promise nothing). GH200 and GB200 have a faster link to
# their host than PCIe: there the assumed one promises less.
SHEETS: Final[tuple[tuple[str, float, float, float, float, int], ...]] = (
    (r"V100", 125.0, 15.7, 7.8, 31.4, 3),
    (r"\bT4\b", 65.0, 8.1, 0.25, 16.2, 3),
    (r"A100", 312.0, 19.5, 9.7, 78.0, 4),
    (r"\bA10\b", 125.0, 31.2, 0.98, 31.2, 4),
    (r"\bA10G\b", 62.5, 31.2, 0.98, 31.2, 4),
    (r"\bA30\b", 165.0, 10.3, 5.2, 41.2, 4),
    (r"\bA40\b|A6000", 150.0, 37.4, 0.58, 37.4, 4),
    (r"\bL4\b", 121.0, 30.3, 0.47, 30.3, 4),
    (r"L40S", 362.0, 91.6, 1.4, 91.6, 4),
    (r"\bL40\b", 181.0, 90.5, 1.4, 90.5, 4),
    (r"H100|H200|GH200", 989.0, 67.0, 34.0, 133.8, 5),
    (r"B200|B100|GB200", 2250.0, 80.0, 40.0, 160.0, 5),
    (r"3090", 71.0, 35.6, 0.56, 35.6, 4),
    (r"4090", 165.0, 82.6, 1.3, 82.6, 4),
    (r"MI2[15]0", 383.0, 95.7, 95.7, 383.0, 4),
    (r"MI300|MI325", 1307.0, 163.4, 163.4, 1307.0, 5),
)
# Where the product is unknown: the smallest ratios above, so that nothing is promised that the device may not have.
UNKNOWN: Final = ("", 2.0, 1.0, 0.5, 1.0, 3)

# GB/s that a pinned copy reaches over 16 lanes: about 80 % of what the link carries (16, 32, 64). NVIDIA's bandwidthTest and nvbandwidth
# show 12.2 to 12.9 on a P100, 25.1 on an A100, 52.8 to 55.6 on an H100 (users' reports and NVIDIA's own guide); the worse and the better
# case are assumed: 25 % less (20 on an A10 is among the reports) to 10 % more.
LINK_GB_PER_S: Final = {3: 12.0, 4: 24.0, 5: 50.0}
LINK_PESSIMISTIC: Final = 0.75
LINK_OPTIMISTIC: Final = 1.1
# A copy takes this long however small it is; assumed (the shortest copies in the traces of tests/data take 0.8 to 2.8 us).
COPY_AT_LEAST_NS: Final = 1_500.0

# 16 bit, worse: a kernel that is bound by memory moves half the bytes, and casts are added under autocast. PyTorch's recipe for automatic
# mixed precision promises 2 to 3 times for whole networks, NVIDIA up to 3; a quarter less than the least of that is assumed. Expected, and
# assumed: the geometric mean of worse and better, as shapes that fill the cores are as usual as those that do not.
HALF_PESSIMISTIC: Final = 1.5
# 16-bit kernels that miss the cores: NVIDIA's "Matrix Multiplication Background" (section 2.2) shows up to the ratio of the rates with
# cuBLAS 10 and little with 11, which uses the cores for any size, more slowly; how little at worst is assumed.
ALIGNED_PESSIMISTIC: Final = 1.1
# float64 to float32: at least the bytes are halved; the worse case, of kernels bound by latency, is assumed.
SINGLE_EXPECTED: Final = 2.0
SINGLE_PESSIMISTIC: Final = 1.1

# Receiving a batch that was ready: as where cores are idle, as on most machines that traces come from; on a busy one at worst.
RECEIVE_NS: Final = Assumed(expected=loading.RECEIVING.bounds[0], optimistic=0, pessimistic=loading.RECEIVING.bounds[1])

# Of a run of elementwise kernels fused into one, the longest pass over memory stays. Of each of the others a pass reads one tensor, or two,
# and writes one, and the fused kernel still has to read the second operand: a third of it stays at worst, by counting the passes;
# half of that is assumed to be usual.
FUSED_STAYS: Final = Assumed(expected=1 / 6, optimistic=0.0, pessimistic=1 / 3)

# How much of the compute beside which a collective could run hides it; assumed. Collectives take multiprocessors and memory bandwidth from
# the kernels beside them, and buckets become ready only as the backward goes. PyTorch's DDP paper (Li et al., VLDB 2020) says what overlap
# spares of an iteration (38 % of ResNet-50's, 35 % of BERT's with NCCL), not which part of the communication it hid.
HIDES: Final = Assumed(expected=0.8, optimistic=1.0, pessimistic=0.5)

# Collectives below this are bound by latency: with PCIe their bus bandwidth is near its peak from about 1 MiB on (NVIDIA/nccl issue 445),
# with NVLink it reaches half of it only at some. DDP's buckets are 25 MiB (`bucket_cap_mb` of DistributedDataParallel).
SMALL_COLLECTIVE_BYTES: Final = 1 << 20
BUCKET_BYTES: Final = 25 << 20

# An operation that moves from the host to the device still is launched: operator and call, under a profiler. Assumed from what a node costs
# to dispatch without one (`computing.DISPATCH`: 7 to 28 us) and what a profiler adds (up to 1.7 times).
OPERATION_NS: Final = Assumed(expected=20_000, optimistic=10_000, pessimistic=50_000)


def sheet(device: str | None) -> tuple[str, float, float, float, float, int]:
    """The row of a product in SHEETS."""
    return next((row for row in SHEETS if re.search(row[0], device or "")), UNKNOWN)


def half_precision(device: str | None) -> Assumed:
    """How many times as fast a float32 matrix product, not on Tensor Cores, runs in 16 bit."""
    _, half, full, *_ = sheet(device)
    optimistic = half / full
    pessimistic = min(HALF_PESSIMISTIC, optimistic)
    return Assumed(expected=(pessimistic * optimistic) ** 0.5, optimistic=optimistic, pessimistic=pessimistic)


def aligned_shapes(device: str | None) -> Assumed:
    """How many times as fast a 16-bit matrix product runs once its sizes suit the Tensor Cores."""
    _, half, _, _, ordinary, _ = sheet(device)
    optimistic = max(half / ordinary, ALIGNED_PESSIMISTIC)
    return Assumed(expected=(ALIGNED_PESSIMISTIC * optimistic) ** 0.5, optimistic=optimistic, pessimistic=ALIGNED_PESSIMISTIC)


def single_precision(device: str | None) -> Assumed:
    """How many times as fast a float64 kernel runs in float32."""
    _, _, single, double, *_ = sheet(device)
    return Assumed(expected=SINGLE_EXPECTED, optimistic=max(single / double, SINGLE_EXPECTED), pessimistic=SINGLE_PESSIMISTIC)


def link_gb_per_s(device: str | None) -> Assumed:
    """What a copy from or to pinned memory reaches."""
    usual = LINK_GB_PER_S[sheet(device)[5]]
    return Assumed(expected=usual, optimistic=usual * LINK_OPTIMISTIC, pessimistic=usual * LINK_PESSIMISTIC)
