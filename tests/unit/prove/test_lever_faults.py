"""Which lever a script ended with, and what it died of."""

from __future__ import annotations

import pytest

from slowstep.prove.choose import Choice
from slowstep.prove.executor import Ending
from slowstep.prove.lever_faults import KILLED, OUT_OF_MEMORY, arm_at_end, cause_of, error_in, find_faults
from slowstep.prove.stats.design import FIRST
from slowstep.reason_words import sentence
from slowstep.record.experiment.lever import LeverSpec

CRASH = """step 10
Traceback (most recent call last):
  File "train.py", line 16, in main
    last = acc.pop()
           ^^^^^^^^^
IndexError: pop from empty list"""
ON_A_PROCESSOR = CRASH.replace(
    "IndexError: pop from empty list",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9",
)
ON_A_DEVICE = CRASH.replace(
    "IndexError: pop from empty list",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.\nSee the documentation for Memory Management",
)
IN_JAX = CRASH.replace("IndexError: pop from empty list", "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes")


def ending(exit_code: int | None, output: str = "", problem: str | None = None) -> Ending:
    return Ending(exit_code=exit_code, killed=exit_code is None, left=(), output=output, problem=problem)


def said_of(ended: Ending) -> str:
    return sentence(cause_of(ended))


@pytest.mark.parametrize(("arms", "on"), [((), None), ((0,), None), ((2, 1), None), ((0, 3, 2), 2)])
def test_the_last_switch_says_which_arm_was_on(arms, on):
    assert arm_at_end([{"kind": "arm", "arm": arm} for arm in arms]) == on


def test_a_warning_about_memory_before_another_error_is_no_lack_of_memory():
    warned = ending(1, f"warning: near out of memory\n{CRASH}")

    assert said_of(warned) == "the script ended with exit code 1 while it was on (IndexError: pop from empty list)"


@pytest.mark.parametrize("ended", [ending(0), ending(None), ending(None, CRASH), ending(1, CRASH, "it took too much room")])
def test_an_end_without_a_fault_has_no_cause(ended):
    assert cause_of(ended) is None


def test_an_error_is_told_by_its_own_line():
    assert said_of(ending(1, CRASH)) == "the script ended with exit code 1 while it was on (IndexError: pop from empty list)"
    assert said_of(ending(3)) == "the script ended with exit code 3 while it was on"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (ON_A_PROCESSOR, "RuntimeError: [enforce fail"),
        (ON_A_DEVICE, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.)"),
        (IN_JAX, "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED"),
        (CRASH.replace("IndexError: pop from empty list", "MemoryError"), "MemoryError)"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "terminate called"),
    ],
)
def test_a_lack_of_memory_is_called_that(output, said):
    assert cause_of(ending(1, output)).code == OUT_OF_MEMORY.code
    assert said_of(ending(1, output)).startswith(f"out of memory while it was on ({said}")


def test_who_was_killed_by_the_system_lacked_memory_by_all_appearances():
    assert cause_of(ending(137)) == KILLED()


def test_of_a_long_error_the_beginning_is_told_and_without_a_traceback_the_last_line():
    assert error_in("one\ntwo\n") == "two"
    assert error_in("") == ""
    assert len(error_in(f"Traceback (most recent call last)\nValueError: {'x' * 500}")) == 200


@pytest.mark.parametrize(("noted", "blamed"), [((), 1), (("IndexError",), 0), (("KeyError",), 1)])
def test_no_lever_is_blamed_for_an_error_that_was_noted_as_the_script_s_own(noted, blamed):
    choices, switched = [Choice(spec=LeverSpec(name="jit-compile"))], [{"kind": "arm", "arm": FIRST}]

    found = find_faults(choices, switched, (), ending(1, CRASH), [{"kind": "own_error", "error": error} for error in noted])

    assert len(found) == blamed
