"""Whether an error of TensorFlow's is that of the input which a call has fetched, and not of what is computed with it."""

from __future__ import annotations

import re
import sys
from typing import Final

# As TensorFlow 2.21 says it: at the end of an error stand the nodes of the graph that have passed it on, or the operation that was called
# by itself. A node that hands a batch from device to device is called the same, but for a number behind a slash.
_FETCH: Final = r"IteratorGetNext(AsOptional|Sync)?(_\d+)?"
_PASSED_ON_BY: Final = re.compile(rf"\[\[(\{{\{{node )?([^\]\s]*/)?{_FETCH}(\}}\}})?\]\]|\[Op:{_FETCH}\]")


def is_of_input(error: BaseException) -> bool:
    """Whether the pipeline has raised it, at the batch that was fetched. Its end is none."""
    errors = sys.modules["tensorflow"].errors
    is_error = isinstance(error, errors.OpError) and not isinstance(error, errors.OutOfRangeError)
    return is_error and _PASSED_ON_BY.search(str(error)) is not None
