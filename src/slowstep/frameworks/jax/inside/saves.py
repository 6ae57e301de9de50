"""Checkpoint writes of JAX trainings, by Orbax and by flax: what the training stands still for, and not what their threads do behind it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.steps.saves import timed_save

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_ORBAX: Final = "orbax.checkpoint"
_FLAX: Final = "flax.training.checkpoints"
_MANAGER: Final = "CheckpointManager"
_CHECKPOINTERS: Final = ("Checkpointer", "AsyncCheckpointer", "StandardCheckpointer", "PyTreeCheckpointer")


def install_orbax(recorder: Recorder) -> Undo:
    """Replace `save` of its manager, and of its checkpointers where one has its own. Raises Unfit where this version has no manager."""
    module = sys.modules[_ORBAX]
    manager = find(module, _MANAGER)
    # Asked at each step it writes at some, and says whether it has.
    managed = timed_save(
        recorder, find(manager, "save"), f"ocp.{_MANAGER}.save", position=1, keyword="step", is_written=lambda result: result is not False
    )
    kinds = {name: vars(module).get(name) for name in _CHECKPOINTERS}
    own = {name: kind for name, kind in kinds.items() if isinstance(kind, type) and "save" in vars(kind)}
    return all_of(
        [
            replace(manager, "save", managed),
            *(
                replace(kind, "save", timed_save(recorder, vars(kind)["save"], f"ocp.{name}.save", position=1, keyword="directory"))
                for name, kind in own.items()
            ),
        ]
    )


def install_flax(recorder: Recorder) -> Undo:
    """Replace `save_checkpoint`. Raises Unfit where this version has none."""
    module = sys.modules[_FLAX]
    save = timed_save(recorder, find(module, "save_checkpoint"), f"{_FLAX}.save_checkpoint", position=0, keyword="ckpt_dir")
    return replace(module, "save_checkpoint", save)


HOOKS = (
    Hook(name="orbax_saves", module=_ORBAX, install=install_orbax),
    Hook(name="flax_saves", module=_FLAX, install=install_flax),
)
