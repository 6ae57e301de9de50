"""Sessions in Python's own prompt, in IPython and in a real notebook: what the user sees there, and how code without a file is named."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slowstep.workflow.diagnose_recordings import diagnose_recording

pytest.importorskip("torch")

pytestmark = pytest.mark.slow

SETUP = """
import time
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.zeros(160, 8), torch.zeros(160, 1)), batch_size=4)
def slow_callback():
    time.sleep(0.02)
"""
# At the top level of a cell or a prompt: there is no function to be the training loop.
LOOP = """
for inputs, targets in loader:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
    slow_callback()
"""
# The diagnosis is left out where only the shell is looked at.
NO_DIAGNOSIS = """
import slowstep.workflow.sessions.session_report as session_report
session_report.diagnose_in_subprocess = lambda folder, warmup: {}
"""


def at_prompt(place: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What a session shows whose commands come from a pipe."""
    commands = re.sub(r"\n(?=[^\s])", "\n\n", text.strip()) + "\n\n"
    words = [sys.executable, "-i"]
    return subprocess.run(words, cwd=place, input=commands, capture_output=True, text=True, timeout=100, check=False)


def recordings(place: Path) -> list[Path]:
    return sorted(path for path in (place / "slowstep_runs").iterdir() if path.is_dir())


def parts(report: dict[str, Any]) -> list[str]:
    return [part["name"] for row in report["ledger"] for part in row["parts"]]


def test_a_prompt_shows_the_report_and_counts_no_time_between_commands(tmp_path: Path) -> None:
    loops = f"began = time.monotonic()\n{LOOP}\ntime.sleep(3)\n{LOOP}\nprint('took', time.monotonic() - began)"
    text = f"{SETUP}\nimport slowstep\nslowstep.start()\n{loops}\nslowstep.stop()\nimport sys\nsys.ps1"

    done = at_prompt(tmp_path, text)

    assert "slowstep records into slowstep_runs" in done.stdout
    assert "slow_callback (<stdin>:" in done.stdout
    assert "recorded from within an interactive session" in done.stdout
    assert "'>>> '" in done.stdout
    assert "Traceback" not in done.stderr
    report = diagnose_recording(recordings(tmp_path)[0])
    assert report["run"]["recorded_steps"] == 40
    assert "(40; 40 in others)" in " ".join(report["run"]["notes"])
    # The three seconds between the two loops are in no step.
    took_s = float(re.search(r"took (\S+)", done.stdout)[1])  # type: ignore[index]
    assert report["run"]["steps"] / report["throughput"]["steps_per_s"] < took_s - 3
    assert report["findings"][0]["rule"] == "slow-callback"


def test_a_terminal_gets_its_prompt_back_and_ctrl_c_ends_a_block(tmp_path: Path) -> None:
    lines = [
        *NO_DIAGNOSIS.strip().splitlines(),
        *["import slowstep, sys, time", "session_report.SessionReport.show = lambda self: print('sho' + 'wn')"],
        *["with slowstep.record():", "    print('beg' + 'un', flush=True); time.sleep(60)", ""],
    ]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(sys.executable, [sys.executable, "-q"], os.environ | {"PYTHON_BASIC_REPL": "1", "TERM": "dumb"})
    try:
        os.write(terminal, ("\n".join(lines) + "\n").encode())
        seen = read_until(terminal, "begun")
        os.write(terminal, b"\x03")
        seen += read_until(terminal, "KeyboardInterrupt")
        os.write(terminal, b"type(sys.ps1), slowstep.active if 0 else 'at the ' + 'prompt'\n")
        seen += read_until(terminal, "at the prompt")
    finally:
        os.write(terminal, b"exit()\n")
        os.waitpid(pid, 0)
        os.close(terminal)
    assert "shown" in seen
    assert "<class 'str'>" in seen


def read_until(terminal: int, text: str) -> str:
    seen, deadline = "", time.monotonic() + 60
    while text not in seen:
        assert time.monotonic() < deadline, seen
        seen += os.read(terminal, 4096).decode(errors="replace")
    return seen


IPYTHON = f"""
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "slowstep")
{NO_DIAGNOSIS}
session_report.SessionReport._repr_mimebundle_ = lambda self, **_: {{"text/plain": "the report"}}
callbacks = len(shell.events.callbacks["post_run_cell"])
def run(cell):
    result = shell.run_cell(cell, store_history=True)
    return result.success, type(result.error_before_exec or result.error_in_exec).__name__
"""


def in_ipython(place: Path, text: str) -> list[str]:
    pytest.importorskip("IPython")
    script = place / "shell.py"
    script.write_text(IPYTHON + text)
    environment = os.environ | {"IPYTHONDIR": str(place / "ipython")}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=place, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_cell_magic_runs_the_cell_and_shows_the_report(tmp_path: Path) -> None:
    out = in_ipython(
        tmp_path,
        """
print(run("%%slowstep --level 2 --for 1m\\nx = 6 * 7\\nprint(x)"))
print(run("%%slowstep --levle 2\\nprint('not run')"))
print(run("%%slowstep\\n1 / 0"))
print(run("%%slowstep\\nthis is no Python"))
print(run("x + 1"), shell.user_ns["x"])
print(len(shell.events.callbacks["post_run_cell"]) - callbacks, "showtraceback" in vars(shell))
shell.run_line_magic("unload_ext", "slowstep")
print("slowstep" in shell.magics_manager.magics["cell"])
""",
    )

    text = "\n".join(out)
    assert out[:3] == ["42", "the report", "(True, 'NoneType')"]
    assert "(False, 'UsageError')" in out
    assert "not run\n" not in text.replace("print('not run')", "")
    assert text.count("division by zero") == 1
    assert "(False, 'ZeroDivisionError')" in out
    # The report stands above what the cell raised.
    assert out.index("the report", 3) < next(at for at, line in enumerate(out) if "division by zero" in line)
    assert "(False, 'SyntaxError')" in out
    assert out[-3:] == ["(True, 'NoneType') 42", "0 False", "False"]
    levels = [json.loads((folder / "launcher.jsonl").read_text().splitlines()[0])["level"] for folder in recordings(tmp_path)]
    assert levels == [2, 1, 1]


def test_a_mistake_in_the_options_of_the_magic_is_a_line_and_its_help_is_shown(tmp_path: Path) -> None:
    out = in_ipython(
        tmp_path,
        """
sys.stderr = sys.stdout
for options in ("--bogus", "'", "--help"):
    print(run(f"%%slowstep {options}\\nprint('not run')"), "|")
print(run("%slowstep"), "|")
shell.run_line_magic("pinfo", "%slowstep")
shell.run_line_magic("pinfo", "%%slowstep")
""",
    )

    mistake, quotation, help_, *_ = "\n".join(out).split(" |")
    assert mistake.startswith("UsageError: %%slowstep: unrecognized arguments: --bogus. usage: %%slowstep [--level N]")
    assert mistake.endswith("(False, 'UsageError')")
    assert len(mistake.splitlines()) == 2
    assert "no closing quotation" in quotation
    assert "--warmup N" in help_
    assert not (tmp_path / "slowstep_runs").exists()
    text = "\n".join(out)
    assert "not run" not in text
    assert text.count("Record this cell") == 4


def test_a_traceback_in_ipython_shows_no_frame_of_ours(tmp_path: Path) -> None:
    out = in_ipython(
        tmp_path,
        """
print(run('''
from torch.utils.data import DataLoader
class Broken:
    def __len__(self): return 8
    def __getitem__(self, index): raise ValueError("mine")
import slowstep
slowstep.start()
'''))
print(run("for batch in DataLoader(Broken(), batch_size=4): pass"))
print(run("slowstep.stop()"))
""",
    )

    text = "\n".join(out)
    assert "mine" in text
    assert "(False, 'ValueError')" in text
    assert "slowstep/record" not in text
    assert "slowstep/frameworks" not in text


CELLS = [
    SETUP,
    "%load_ext slowstep",
    f"%%slowstep\n{LOOP}{LOOP}",
    "import slowstep\nslowstep.start()\nNone",
    LOOP,
    f"time.sleep(2)\n{LOOP}{LOOP}",
    "report = slowstep.stop()",
    "import json\nprint(json.dumps(report.document))",
    "report",
]


def test_a_real_notebook_shows_reports_that_name_its_cells(tmp_path: Path) -> None:
    outputs = execute(CELLS, tmp_path)

    (shown,) = outputs[2]
    assert "slow_callback (cell In[1]:" in shown["data"]["text/plain"]
    assert shown["data"]["text/html"].startswith("<pre")
    assert re.search(r'style="[^"]*color: #[0-9a-f]{6}', shown["data"]["text/html"])
    assert outputs[6] == []
    document = json.loads(outputs[7][0]["text"])
    assert document["run"]["recorded_steps"] == 80
    assert document["run"]["name"] == "notebook"
    assert document["findings"][0]["rule"] == "slow-callback"
    assert "BOTTLENECK" in outputs[8][0]["data"]["text/plain"]
    # Two thousand milliseconds of sleep before the loop are in no step, and lines are those of the cells.
    assert "after the update" in outputs[8][0]["data"]["text/plain"]
    frames = [part for part in parts(document) if "cell In[" in part]
    assert frames


@pytest.mark.nightly
def test_the_example_notebook_works(tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
    notebook = json.loads(path.read_text())
    assert all(cell.get("outputs", []) == [] for cell in notebook["cells"])

    outputs = execute(["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"], tmp_path)

    reports = [output["data"]["text/plain"] for cell in outputs for output in cell if output["output_type"] == "display_data"]
    assert len(reports) == 2
    assert "weight_histograms (cell In[2]:" in reports[0]
    assert "weight_histograms" not in reports[1]


def execute(cells: list[str], place: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each cell, as a kernel of its own gives them. Raises what a cell raises."""
    pytest.importorskip("ipykernel")
    pytest.importorskip("nbclient")
    script, source, result = place / "execute.py", place / "cells.json", place / "outputs.json"
    source.write_text(json.dumps(cells))
    # Apart from pytest, whose filters make errors of the warnings of others.
    script.write_text(
        "import json, sys, nbclient, nbformat.v4 as v4\n"
        "nb = v4.new_notebook(cells=[v4.new_code_cell(text) for text in json.load(open(sys.argv[1]))])\n"
        "nbclient.NotebookClient(nb, timeout=90, kernel_name='python3', resources={'metadata': {'path': sys.argv[3]}}).execute()\n"
        "json.dump([cell.outputs for cell in nb.cells], open(sys.argv[2], 'w'))\n"
    )
    words = [sys.executable, str(script), str(source), str(result), str(place)]
    environment = os.environ | {"JUPYTER_RUNTIME_DIR": str(place / "runtime"), "IPYTHONDIR": str(place / "ipython")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=115, check=False)
    assert done.returncode == 0, done.stderr
    loaded: list[list[dict[str, Any]]] = json.loads(result.read_text())
    return loaded
