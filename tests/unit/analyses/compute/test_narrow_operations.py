"""Operations in 16 bits, by what looks at graphs have noted, and whether the processor has instructions for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from made_recordings import Training, make_recording
from slowstep.analyses.compute.narrow_operations import NarrowOperations
from slowstep.analyses.measure_recording import measure_recording
from slowstep.record.system.facts import cpu_flags
from slowstep.sources.recording import SOURCE


def _narrow(folder: Path, flags: list[str] | None, **work: Any) -> NarrowOperations | None:
    made = make_recording(folder, Training(workers=2, fixed_ms=10, batch_size=8, work=work))
    notes = made / "100-1.jsonl"
    first, *others = notes.read_text().splitlines()
    notes.write_text("\n".join([json.dumps({**json.loads(first), "cpu_flags": flags}), *others]) + "\n")
    return measure_recording(SOURCE.read(made)).compute.narrow


@pytest.mark.parametrize(
    ("flags", "is_native", "has_bfloat16"),
    [([], False, False), (["avx512_bf16"], False, True), (["amx_fp16"], True, False), (None, None, False)],
)
def test_the_processor_tells_whether_it_has_instructions_for_a_type(tmp_path, flags, is_native, has_bfloat16):
    found = _narrow(tmp_path, flags, multiplying=8, float16=6, bfloat16=0)

    assert found == NarrowOperations(dtype="float16", share=0.75, is_native=is_native, has_bfloat16=has_bfloat16)


def test_of_float32_and_of_older_recordings_nothing_is_told(tmp_path):
    assert _narrow(tmp_path / "wide", [], multiplying=8, float16=0, bfloat16=0) is None
    assert _narrow(tmp_path / "older", []) is None
    assert _narrow(tmp_path / "damaged", [], multiplying=8, float16=-6, bfloat16=0) is None


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("processor : 0\nflags\t\t: fpu avx2 avx512_bf16 amx_fp16\n", ["amx_fp16", "avx512_bf16"]),
        ("processor : 0\nFeatures : fp asimd asimdhp bf16\n", ["asimdhp", "bf16"]),
        ("flags : fpu avx2\n", []),
        ("processor : 0\n", None),
    ],
    ids=["x86", "ARM", "none of them", "not told"],
)
def test_what_linux_says_of_its_first_core_is_read(tmp_path, text, flags):
    (tmp_path / "cpuinfo").write_text(text)

    assert cpu_flags(str(tmp_path / "cpuinfo")) == flags
    assert cpu_flags(str(tmp_path / "none")) is None
