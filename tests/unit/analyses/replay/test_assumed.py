from __future__ import annotations

import pytest

from slowstep.analyses.replay.assumed import UNKNOWN, half_precision, link_gb_per_s, sheet


@pytest.mark.parametrize(
    ("device", "half", "full"),
    [
        ("NVIDIA L4", 121.0, 30.3),
        ("NVIDIA L40", 181.0, 90.5),
        ("NVIDIA L40S", 362.0, 91.6),
        ("NVIDIA A10", 125.0, 31.2),
        ("NVIDIA A10G", 62.5, 31.2),
        ("NVIDIA A100-SXM4-40GB", 312.0, 19.5),
        ("NVIDIA H100 80GB HBM3", 989.0, 67.0),
        ("Tesla V100-SXM2-16GB", 125.0, 15.7),
        ("AMD Instinct MI300X", 1307.0, 163.4),
    ],
)
def test_products_whose_names_begin_alike_have_their_own_rates(device, half, full):
    assert sheet(device)[1:3] == (half, full)
    assert half_precision(device).optimistic == pytest.approx(half / full)


@pytest.mark.parametrize("device", [None, "", "NVIDIA TITAN of 2031"])
def test_an_unknown_product_is_promised_the_least(device):
    assert sheet(device) == UNKNOWN
    assert half_precision(device).optimistic <= half_precision("NVIDIA A10G").optimistic
    assert link_gb_per_s(device).expected == link_gb_per_s("Tesla V100").expected


def test_the_expected_case_lies_between_the_worse_and_the_better():
    for device in ("NVIDIA A100", "NVIDIA L40", None):
        for made in (half_precision(device), link_gb_per_s(device)):
            assert made.pessimistic <= made.expected <= made.optimistic
