"""How many operations a line of Python may do, by its instructions: one of tensors is a call, arithmetic, a comparison or an index.

Those of numbers count too, so that there may be fewer of tensors, never more.
"""

from __future__ import annotations

import opcode
from collections import Counter
from types import CodeType
from typing import Final

_NAMES: Final = ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "COMPARE_OP", "STORE_SUBSCR", "STORE_SLICE", "UNARY_NEGATIVE", "UNARY_INVERT")
_CODES: Final = frozenset(code for code, name in enumerate(opcode.opname) if name in _NAMES or name.startswith("BINARY_"))


def operations_by_line(code: CodeType) -> Counter[int]:
    """Of each line of a function that has any, how many; those of functions inside of it are theirs."""
    instructions = zip(code.co_code[::2], code.co_positions(), strict=False)
    return Counter(line for number, (line, *_) in instructions if line is not None and number in _CODES)
