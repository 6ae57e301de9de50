"""The wild suite through slowstep and other tools of its kind, each in an environment of its own: what each says of the same trainings.

See benchmarks/wild/README.md, "Other tools".
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from case_study import ChildFailed, run_limited  # noqa: E402
from instrumented import FOURNEX, TRACEML, Lines, NoStep, instrumented  # noqa: E402
from others_page import draw  # noqa: E402
from others_said import READINGS, Said  # noqa: E402
from rivals import CACHE, NotInstalled, environment_of, version_of  # noqa: E402
from run import Runner, carry_out, command_line, read_command_line  # noqa: E402
from suite import Case  # noqa: E402

PAGE = HERE / "others.md"
TOOLS = tuple(dict.fromkeys(reading.tool for reading in READINGS))
# Of a tool that fails so much of what it printed last is kept.
KEPT_CHARACTERS = 1000
KEPT_OF_FOURNEX = ("primary_bottleneck", "user_facing_bottleneck", "confidence", "evidence", "why")
KEPT_OF_ADVICE = ("title", "why", "actions", "estimated_speedup_pct_min", "estimated_speedup_pct_max")
# "Add two lines to your training script" (gpuprof's README): the two, around a script that is run as it is.
GPUPROF_LINES = """
import runpy
import sys
import gpuprof

sys.argv = sys.argv[1:]
with gpuprof.profile("wild"):
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training to be run under a tool, in a folder that is discarded."""

    bin_folder: Path
    folder: Path
    script: Path
    flags: tuple[str, ...]
    limit_s: float

    @property
    def python(self) -> str:
        return str(self.bin_folder / "python")

    def tool(self, name: str, *words: str) -> str:
        """What a command of the tool prints. Raises `ChildFailed`."""
        return run_limited([str(self.bin_folder / name), *words], str(self.folder), self.limit_s)

    def with_lines(self, lines: Lines) -> Path:
        """The script with a tool's lines in it; as it is where a framework has the loop."""
        source = self.script.read_text()
        try:
            source = instrumented(source, lines)
        except NoStep:
            pass
        changed = self.folder / self.script.name
        changed.write_text(source)
        return changed


def traceml(run: Run) -> Said:
    """`traceml run`, with `traceml.init()` and `trace_step` in a script whose loop is its own."""
    words = ("--mode=summary", "--logs-dir", "logs", "--run-name", "wild", str(run.with_lines(TRACEML)), "--args", *run.flags)
    run.tool("traceml", "run", *words)
    return dict(json.loads((run.folder / "logs" / "wild" / "final_summary.json").read_text())["primary_diagnosis"])


def train_doctor(run: Run) -> Said:
    """`train-doctor profile`, which ends the training when it has seen enough."""
    out = run.tool("train-doctor", "profile", "--json", "--", run.python, str(run.script), *run.flags)
    said = json.loads(out[out.index("{") :])
    if said.get("error"):
        raise ChildFailed(str(said["error"]))
    return {
        "steps": (said["step_time_ms"] or {}).get("n", 0),
        **{name: said[name] for name in ("split", "findings", "limits")},
    }


def fournex(run: Run) -> Said:
    """`frx collect` with its SDK in a script whose loop is its own, then `frx analyze`."""
    run.tool("frx", "collect", "--run-id", "wild", "--no-zip", "--", run.python, str(run.with_lines(FOURNEX)), *run.flags)
    out = run.tool("frx", "analyze", "runs/wild", "--json")
    result = json.loads(out[out.index("{") :])["result"]
    # What `frx analyze` shows unless asked for another scope.
    scope = result.get("steady_state") or result.get("run") or result
    diagnosis = scope["diagnosis"]
    advised = [{name: each.get(name) for name in KEPT_OF_ADVICE} for each in diagnosis["recommendations"]]
    kept = {name: diagnosis.get(name) for name in KEPT_OF_FOURNEX}
    return {"steps": scope.get("step_count", 0), "diagnosis": {**kept, "recommendations": advised}}


def gpuprof(run: Run) -> Said:
    """The script inside `gpuprof.profile`, then `gpuprof insights`."""
    wrapper = run.folder / "with_gpuprof.py"
    wrapper.write_text(GPUPROF_LINES)
    run.tool("python", str(wrapper), str(run.script), *run.flags)
    said = json.loads(run.tool("gpuprof", "insights", "--json"))
    return {"steps": said["summary"]["n_steps"], "phases_s": said["summary"]["phase_avg_s"], "insights": said["insights"]}


ASK: dict[str, Callable[[Run], Said]] = {"traceml-ai": traceml, "train-doctor": train_doctor, "fournex": fournex, "gpuprof": gpuprof}


class OthersRunner(Runner):
    """Runs each training under each tool, in turning order, between the pairs that tell the true gain."""

    def __init__(self, tools: tuple[str, ...], *, seed: int, pairs: int, steps: int | None, limit_s: float) -> None:
        super().__init__(pairs=pairs, steps=steps, limit_s=limit_s)
        self.environments = {tool: environment_of(f"wild-{tool}") for tool in tools if tool in ASK}
        self.tools = tools
        self.order = random.Random(seed)

    def described(self) -> dict[str, Any]:
        return {**super().described(), "tools": {tool: version_of(tool, f"wild-{tool}") for tool in self.environments}}

    def recorded(self, case: Case) -> dict[str, Any]:
        """What each tool says, by its name."""
        return {tool: self.said(tool, case) for tool in self.order.sample(self.tools, len(self.tools))}

    def said(self, tool: str, case: Case) -> Said:
        """What a tool says of a case, or how it failed."""
        try:
            return super().recorded(case) if tool not in ASK else self.asked(tool, case)
        except (ChildFailed, KeyError, OSError, ValueError) as error:
            return {"failed": without_folders(f"{type(error).__name__}: {error}")[-KEPT_CHARACTERS:]}

    def asked(self, tool: str, case: Case) -> Said:
        with tempfile.TemporaryDirectory(prefix="wild-") as folder:
            script, *flags = self.words(case, fixed=False)[1:]
            run = Run(
                bin_folder=self.environments[tool], folder=Path(folder), script=Path(script), flags=tuple(flags), limit_s=self.limit_s
            )
            return ASK[tool](run)

    def line_of(self, row: dict[str, Any]) -> str:
        return f"{row['case']:24} " + ", ".join(self.shown(row["report"][tool], tool) for tool in self.tools)

    def shown(self, said: Said, tool: str) -> str:
        """A tool's verdict in a few words."""
        reading = next(each for each in READINGS if each.tool == tool)
        verdict = reading.verdict(said) if "failed" not in said else None
        return f"{tool}: {verdict.state} {verdict.code or ''}".strip() if verdict else f"{tool}: no report"


def without_folders(text: str) -> str:
    """A failure without what names this machine's folders."""
    for folder in (CACHE, HERE.parent.parent, Path(tempfile.gettempdir())):
        text = text.replace(f"{folder}/", "")
    return text


def main() -> int:
    parser = command_line(__doc__, results="wild-others", page=PAGE)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS, metavar="TOOL", help=f"only these of {', '.join(TOOLS)}")
    arguments = read_command_line(parser)

    def runner_of() -> OthersRunner:
        options = {"pairs": arguments.pairs, "steps": arguments.steps, "limit_s": arguments.limit}
        return OthersRunner(tuple(arguments.tools), seed=arguments.seed, **options)

    try:
        return carry_out(arguments, name="wild-others", page=PAGE, runner_of=runner_of, drawn=draw, takes=lambda case: case.pytorch_alone)
    except NotInstalled as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
