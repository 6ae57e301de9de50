"""Runs a script for an experiment where it stands: for tests whose scripts harm nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps, StepReader
from slowstep.record.injection import inject
from slowstep.record.writing import format as fmt
from slowstep.record.writing.control import ControlPage


class PlainExecutor:
    """One run of a script, recorded into a folder that does not exist yet."""

    def __init__(self, script: Path, folder: Path, asked: Mapping[str, str]) -> None:
        folder.mkdir()
        self.folder, self._script, self._asked = folder, script, asked
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: int | None = None

    def start(self) -> None:
        self._page = ControlPage(str(self.folder))
        environment = inject.injected_environment(
            os.environ | {"OMP_NUM_THREADS": "1"},
            folder=str(self.folder),
            inject=inject.write_injection(str(self.folder)),
            level=1,
            steps=None,
            seconds=None,
            experiment=True,
            asked=self._asked,
        )
        with (self.folder / "output.txt").open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(self._script)], env=environment, stdout=output, stderr=output, start_new_session=True
            )

    def poll(self) -> Any:
        assert self._process is not None
        if self._ended is None:
            self._ended = self._process.poll()
        return SimpleNamespace(updates=self._page.updates, alive=self._ended is None)

    def post(self, plan: Plan) -> None:
        (self.folder / fmt.PLAN_FILE).write_text(plan.dumps())
        self._page.post_plan()

    def steps(self) -> ExperimentSteps:
        files = sorted(self.folder.glob(f"{self._page.pid}-*.rec"))
        return StepReader(files[0]).read() if files else StepReader(Path(os.devnull)).read()

    def lever_notes(self) -> list[dict[str, Any]]:
        return self.notes("lever")

    def notes(self, kind: str) -> list[dict[str, Any]]:
        asked = f'"kind":"{kind}"'
        lines = [line for file in self.folder.glob("*-*.jsonl") for line in file.read_text().splitlines() if asked in line]
        return [json.loads(line) for line in lines if line.endswith("}")]

    def end(self) -> Any:
        assert self._process is not None
        if self._ended is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._page.stop(fmt.STOPPED_BY_END)
        return SimpleNamespace(exit_code=self._ended, killed=self._ended is None, problem=None)
