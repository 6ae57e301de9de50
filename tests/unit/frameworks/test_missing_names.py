"""A version of a framework that lacks what a hook needs is left alone by it: whichever name is missing, no patch stays behind."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recorded import make_folder
from slowstep.record import patch
from slowstep.record.hook import Hook
from slowstep.record.patch import Unfit
from slowstep.record.recorder import Recorder
from slowstep.record.steps import garbage_collections, state_writers
from slowstep.record.writing.format import ENV_LOSSES, ENV_SEEDS
from slowstep.registry import discover_whole

pytestmark = pytest.mark.slow

OWN = (garbage_collections.HOOK, *state_writers.HOOKS)
HOOKS = discover_whole("slowstep.frameworks", "HOOK", Hook, in_each="inside")[0] | {hook.name: hook for hook in OWN}
# A hook asks for some twenty names at most.
MOST_NAMES = 60


class Asked:
    """Stands for `find`, and fails at the name whose turn it is; and for `replace`, of which it knows what was replaced."""

    def __init__(self) -> None:
        self.names, self.fails_at = 0, 0
        self.replaced: list[tuple[Any, str, Any]] = []

    def find(self, root: Any, path: str) -> Any:
        found = patch.find(root, path)
        self.names += 1
        if self.names == self.fails_at:
            raise Unfit(path)
        return found

    def replace(self, owner: Any, name: str, new: Any) -> patch.Undo:
        self.replaced.append((owner, name, vars(owner).get(name)))
        return patch.replace(owner, name, new)

    def left(self) -> list[str]:
        """What is not as it was at first, by the names of what was replaced."""
        first = {(id(owner), name): (owner, was) for owner, name, was in reversed(self.replaced)}
        return [name for (_, name), (owner, was) in first.items() if vars(owner).get(name) is not was]


def registered(recorder: Recorder) -> dict[str, int]:
    """How much is called at updates, at waits and beside the training, by what keeps it."""
    optimizers: Any = sys.modules.get("torch.optim.optimizer")
    kept = {f"torch: {name}": each for name, each in vars(optimizers or object()).items() if name.startswith("_global_optimizer")}
    own = ("optimizer_undos", "device_probes", "chores", "before_waits", "after_waits", "before_forwards", "before_backwards", "by_hand")
    return {name: len(each) for name, each in (kept | {name: getattr(recorder, name) for name in own}).items()}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    for module in [module for name, module in list(sys.modules.items()) if name.startswith("slowstep.")]:
        for name in ("find", "replace"):
            if vars(module).get(name) is getattr(patch, name) and module is not patch:
                monkeypatch.setattr(module, name, getattr(asked, name))
    return asked


@pytest.fixture
def recorders(tmp_path: Path) -> Iterator[Callable[[], Recorder]]:
    made: list[Recorder] = []

    def recorder() -> Recorder:
        made.append(Recorder(make_folder(tmp_path / f"recording{len(made)}"), level=1))
        # All that a hook can be asked for.
        made[-1].experiment = True
        return made[-1]

    yield recorder
    for each in made:
        each.stop("test")


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
def test_whichever_name_is_missing_no_patch_stays_behind(
    hook: Hook, asked: Asked, recorders: Callable[[], Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        importlib.import_module(hook.module)
    except ImportError:
        pytest.skip(f"needs {hook.module}")
    for name in (ENV_LOSSES, ENV_SEEDS):
        monkeypatch.setenv(name, "1")
    for missing in range(1, MOST_NAMES):
        asked.names, asked.fails_at, asked.replaced = 0, missing, []
        recorder = recorders()
        before = registered(recorder)
        try:
            undo = hook.install(recorder)
        except Unfit:
            assert (asked.left(), registered(recorder)) == ([], before), f"of {missing} names that were asked for the last was missing"
            continue
        finally:
            for taken_away in (*recorder.optimizer_undos, *recorder.undos):
                with suppress(ValueError):
                    taken_away()
            recorder.optimizer_undos.clear()
        undo()
        assert asked.left() == []
        if asked.names < missing:
            return
    pytest.fail("the hook asks for more names than that")
