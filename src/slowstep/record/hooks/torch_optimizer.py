"""Calls of optimizers: torch's global step hooks, and updates that GradScaler leaves out."""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from slowstep.record.callers import training_frame
from slowstep.record.cpu_marks import build_marks
from slowstep.record.facts import torch_facts
from slowstep.record.format import SKIPPED, UPDATE
from slowstep.record.hook import Hook, Undo, Unfit, all_of, find, replace
from slowstep.record.known import Known
from slowstep.record.recorder import now
from slowstep.record.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Register both hooks. Raises Unfit where torch has no global optimizer hooks."""
    module = sys.modules.get("torch.optim.optimizer")
    if module is None:
        raise Unfit("torch.optim is not imported with torch")
    counter = _Counter(recorder)
    before, after = counter.hooks()
    # The first asks for both names, so that nothing is registered when one is missing.
    register_after = find(module, "register_optimizer_step_post_hook")
    handles = [find(module, "register_optimizer_step_pre_hook")(before), register_after(after)]
    undos = [handle.remove for handle in handles]
    scaler: Any = getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None)
    if hasattr(scaler, "_maybe_opt_step"):
        undos.append(replace(scaler, "_maybe_opt_step", counter.scaled_step(scaler._maybe_opt_step)))
    return all_of(undos)


class _Counter:
    """Counts the calls of every optimizer."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known = Known()
        self._updates: list[int] = [0]
        self._most = 0
        recorder.forgetters.append(self._forget)

    def _forget(self) -> None:
        self._known.forget()
        self._updates[:] = [0]
        self._most = 0

    def hooks(self) -> tuple[Any, Any]:
        """The hooks to be called before and after `step` of any optimizer."""
        recorder, local, fault = self._recorder, self._recorder.local, self._recorder.fault
        finish = self._build_finish()

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            local.begun[id(optimizer)] = now()

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            t1 = now()
            t0 = local.begun.pop(id(optimizer), None)
            try:
                if t0 is not None and recorder.live[0]:
                    finish(optimizer, t0, t1, 0)
            except Exception as error:
                fault(error)

        return before, after

    def _build_finish(self) -> Any:
        recorder, known, updates = self._recorder, self._known, self._updates
        event, local, page, step = recorder.event, recorder.local, recorder.page.bytes, recorder.step
        _, mark_update = build_marks(recorder)

        def finish(optimizer: Any, t0: int, t1: int, flags: int) -> None:
            number = known.get(optimizer)
            if number is None:
                number = self._introduce(optimizer)
            if not local.updates:
                recorder.watch()
                recorder.updaters.add(threading.get_ident())
            local.updates += 1
            event(UPDATE, t0, t1, number, 0, 0, flags)
            mark_update(t1)
            count = updates[number] = updates[number] + 1
            if count > self._most:
                # Only the busiest optimizer's calls are steps.
                self._most = count
                step()
                if page[0]:
                    recorder.updated(count, t1)
                else:
                    recorder.stop("launcher")

        return finish

    def _introduce(self, optimizer: Any) -> int:
        recorder = self._recorder
        recorder.ensure_open()
        number = self._known.add(optimizer)
        self._updates.append(0)
        if number == 1:
            recorder.note(torch_facts())
        recorder.note({"kind": "optimizer", "id": number, "type": type(optimizer).__name__, "params": _parameters(optimizer)})
        frame = training_frame(sys._getframe(1))
        if frame is not None:
            recorder.note({"kind": "training_frame", "optimizer": number, **frame})
        return number

    def scaled_step(self, original: Any) -> Any:
        """GradScaler's decision whether to call `step` at all, wrapped."""
        local, fault = self._recorder.local, self._recorder.fault
        finish = self._build_finish()

        @functools.wraps(original)
        def _maybe_opt_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            t0 = now()
            calls = local.updates
            try:
                result = original(self, optimizer, *args, **kwargs)
            except BaseException:
                hide_own_frames()
                raise
            try:
                if local.updates == calls:
                    finish(optimizer, t0, now(), SKIPPED)
            except Exception as error:
                fault(error)
            return result

        return _maybe_opt_step


def _parameters(optimizer: Any) -> int | None:
    try:
        return sum(int(parameter.numel()) for group in optimizer.param_groups for parameter in group["params"])
    except Exception:
        # Lazy parameters have no size yet, and a custom optimizer may have no groups.
        return None


HOOK = Hook(name="torch_optimizer", module="torch", install=install)
