"""CUDA's driver, asked without any package whether an event on one of its streams has ended.

Nothing here makes a context, issues work or waits. Other threads may be capturing a graph meanwhile, which a question in the usual capture
mode would spoil: that of the asking thread is made its own first (CUDA driver API, stream capture modes).
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY: Final = "libcuda.so.1"
# Of NVIDIA's public header cuda.h.
_SUCCESS: Final = 0
_NOT_READY: Final = 600
_CAPTURES_OF_THIS_THREAD: Final = 1


class CudaMissing(Exception):
    """There is no such library, or it is too old for this."""


class CudaEvents:
    """Asks after events, by their handles, on any thread."""

    def __init__(self, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        """Raises CudaMissing."""
        try:
            library = load(LIBRARY)
            # Without the GIL: the driver may be holding a lock of its own.
            self._exchange_mode, self._query = library.cuThreadExchangeStreamCaptureMode, library.cuEventQuery
        except (OSError, AttributeError) as error:
            raise CudaMissing(f"{LIBRARY}: {error}") from None
        # Not by a thread's number, which the system gives to another one later.
        self._own = threading.local()

    def has_ended(self, handle: int) -> bool | None:
        """Whether all is done that was issued before the event; None where the driver does not say."""
        if not hasattr(self._own, "mode"):
            mode = ctypes.c_int(_CAPTURES_OF_THIS_THREAD)
            if int(self._exchange_mode(ctypes.byref(mode))) != _SUCCESS:
                return None
            self._own.mode = _CAPTURES_OF_THIS_THREAD
        code = int(self._query(ctypes.c_void_p(handle)))
        return code == _SUCCESS if code in (_SUCCESS, _NOT_READY) else None
