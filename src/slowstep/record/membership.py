"""Which rank of how many this process is, as soon as that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


class Membership:
    """Looks at torch's default process group, and notes it when it is another than before.

    `on_several` is called once, when this process turns out to be one of several.
    """

    def __init__(self, recorder: Recorder, module: Any, *, on_several: Callable[[], None]) -> None:
        self._recorder, self._module, self._on_several = recorder, module, on_several
        self._noted: tuple[int, int] | None = None
        self._is_watched = False

    def look(self) -> None:
        """Ask, and note what is new. Never raises."""
        recorder = self._recorder
        try:
            if recorder.live[0] and self._module.is_initialized():
                self._note(int(self._module.get_rank()), int(self._module.get_world_size()))
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    def _note(self, rank: int, world_size: int) -> None:
        if self._noted == (rank, world_size) or world_size < 2:
            return
        self._noted = (rank, world_size)
        backend = str(self._module.get_backend())
        self._recorder.introduce({"kind": "rank", "rank": rank, "world_size": world_size, "backend": backend})
        # A rank that never trains is to be seen as well.
        self._recorder.ensure_open()
        if not self._is_watched:
            self._is_watched = True
            self._on_several()
