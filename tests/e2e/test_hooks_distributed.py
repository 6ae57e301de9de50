"""The hooks of torch.distributed on real process groups (gloo), in one process or two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recorded import Process, Ran, Server, processes, run_script
from slowstep.record.writing.format import ENV_STEPS, SYNCED, SYNCED_ANEW, UNSYNCED
from slowstep.record.writing.format import FAILED as RAISED

pytest.importorskip("torch.distributed")

pytestmark = pytest.mark.slow

Run = Callable[..., Ran]

PARTS = """
import multiprocessing, os, sys, time
import torch
import torch.distributed as dist

def join(rank, size):
    dist.init_process_group("gloo", init_method=f"file://{os.path.abspath('store')}", rank=rank, world_size=size)

def train(model, steps, after=lambda: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).mean().backward()
        optimizer.step()
        after()

def two(work):
    ranks = [multiprocessing.get_context("fork").Process(target=work, args=(rank,)) for rank in range(2)]
    for rank in ranks: rank.start()
    for rank in ranks: rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0]
"""


@pytest.fixture
def run(server: Server, tmp_path: Path) -> Run:
    def run(main: str, *, recorded: bool = True, **variables: str) -> Ran:
        return run_script(server, tmp_path, f"{PARTS}\n{main}", recorded=recorded, **variables)

    return run


def spans(process: Process) -> list[tuple[str, int]]:
    texts = {note["id"]: note["text"] for note in process.noted("text")}
    return [(texts[record.a], record.flags) for record in process.of("SPAN")]


ALONE = """
join(0, 1)
value = torch.ones(2)
dist.all_reduce(value)
dist.barrier()
dist.all_gather_object([None], "x")
dist.all_reduce(value, async_op=True).wait()
try:
    dist.all_reduce("no tensor")
except Exception as error:
    print(type(error).__name__)
print(value.tolist())
"""


def test_collectives_that_the_script_calls_are_spans_of_gradient_sharing_each_once(run: Run) -> None:
    plain, ran = run(ALONE, recorded=False), run(ALONE.replace("join(0, 1)", "os.unlink('store'); join(0, 1)"))

    assert (ran.code, ran.out, ran.err) == (plain.code, plain.out, plain.err)
    # Object collectives call others, and a synchronous one waits: that belongs to them.
    names = [("all_reduce", 0), ("barrier", 0), ("all_gather_object", 0), ("all_reduce", 0), ("wait for a collective", 0)]
    assert spans(ran.trainer) == [*names, ("all_reduce", RAISED)]
    assert {record.b for record in ran.trainer.of("SPAN")} == {4}


def test_a_group_of_one_is_no_rank_and_its_backward_is_not_looked_at(run: Run) -> None:
    ran = run("join(0, 1)\ntrain(torch.nn.Linear(8, 1), 3)\nprint(torch.autograd.backward.__module__)")

    assert ran.trainer.noted("rank") == []
    assert ran.trainer.of("BACKWARD_CPU") == []
    assert len(ran.trainer.of("BACKWARD")) == 3


TWO = """
def work(rank):
    join(rank, 2)
    train(torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))), 6)
    dist.destroy_process_group()
    train(torch.nn.Linear(8, 1), 2)
two(work)
"""


def test_each_of_two_ranks_says_who_it_is_and_what_backward_cost_it(run: Run) -> None:
    ran = run(TWO)

    assert (ran.code, ran.err) == (0, "")
    ranks = sorted(processes(ran.folder), key=lambda process: process.noted("rank")[0]["rank"])
    assert [process.noted("rank") for process in ranks] == [
        [{"kind": "rank", "rank": rank, "world_size": 2, "backend": "gloo"}] for rank in range(2)
    ]
    for process in ranks:
        backwards, costs = process.of("BACKWARD"), process.of("BACKWARD_CPU")
        # After the group is gone nothing is shared in backward.
        assert (len(backwards), len(costs)) == (8, 6)
        for backward, cost in zip(backwards, costs, strict=False):
            assert cost.t0 <= backward.t0 <= backward.t1 <= cost.t1
            assert cost.a > 0
            assert cost.b >= -1
        assert spans(process).count(("broadcast of buffers", 0)) >= 5
        assert process.faults == {}


ACCUMULATES = """
def passes(model, optimizer, by):
    for step in range(3):
        for part in range(3):
            last = part == 2
            if by == "attribute":
                model.require_backward_grad_sync = last
            with (model.no_sync() if by == "no_sync" and not last else contextlib.nullcontext()):
                model(torch.ones(4, 8)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

def work(rank):
    join(rank, 2)
    for by in ("nothing", "no_sync", "attribute"):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
        passes(model, torch.optim.SGD(model.parameters(), lr=1e-4), by)
        del model
import contextlib
two(work)
"""


def test_which_backward_passes_share_gradients_is_recorded(run: Run) -> None:
    ran = run(ACCUMULATES)

    assert (ran.code, ran.err) == (0, "")
    together, apart = [SYNCED_ANEW, SYNCED, SYNCED], [UNSYNCED, UNSYNCED, SYNCED]
    for process in processes(ran.folder):
        assert [cost.extra for cost in process.of("BACKWARD_CPU")] == together * 3 + apart * 3 + apart * 3
        assert process.faults == {}


def test_a_recording_that_one_rank_ends_ends_in_the_same_step_in_the_other(run: Run) -> None:
    ran = run(
        """
def work(rank):
    join(rank, 2)
    train(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1)), 60)
two(work)
""",
        **{ENV_STEPS: "20"},
    )

    assert ran.code == 0
    updates = [len(process.of("UPDATE")) for process in processes(ran.folder)]
    assert max(updates) == 20
    assert min(updates) >= 19
    assert {process.noted("end")[0]["reason"] for process in processes(ran.folder)} == {"steps"}


def test_everything_is_put_back_when_the_recording_ends(run: Run) -> None:
    ran = run(
        """
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel
places = [(dist, "all_reduce"), (c10d, "all_reduce"), (c10d, "barrier"), (c10d, "init_process_group"), (dist, "init_process_group"),
          (c10d.Work, "wait"), (DistributedDataParallel, "_sync_buffers"), (torch.autograd, "backward")]
def ours():
    files = [(name, getattr(vars(owner)[name], "__code__", work.__code__).co_filename) for owner, name in places]
    return [name for name, file in files if "/slowstep/frameworks/" in file]
def work(rank):
    before = ours()
    join(rank, 2)
    train(DistributedDataParallel(torch.nn.Linear(8, 1)), 20)
    if rank == 0:
        print(len(before), ours(), flush=True)
two(work)
""",
        **{ENV_STEPS: "10"},
    )

    assert (ran.code, ran.out) == (0, "8 []\n")


def test_a_group_that_was_made_out_of_sight_is_found_at_the_first_update(run: Run) -> None:
    ran = run(
        """
from torch.distributed import distributed_c10d as c10d
def work(rank):
    c10d.init_process_group.__wrapped__("gloo", init_method=f"file://{os.path.abspath('store')}", rank=rank, world_size=2)
    train(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1)), 6)
two(work)
"""
    )

    ranks = processes(ran.folder)
    assert [[note["world_size"] for note in process.noted("rank")] for process in ranks] == [[2], [2]]
    assert [len(process.of("BACKWARD_CPU")) for process in ranks] == [5, 5]


def test_an_error_in_a_collective_shows_the_scripts_frames_only(run: Run) -> None:
    main = "join(0, 1)\ndist.all_reduce('no tensor')\n"
    plain = run(main, recorded=False)
    ran = run(f"os.unlink('store')\n{main}")

    assert ran.code == plain.code == 1
    assert "slowstep/record/" not in ran.err
    assert "slowstep/frameworks/" not in ran.err
    assert plain.err.splitlines()[-1] == ran.err.splitlines()[-1]


COMPILED = """
def exchange(value):
    value = value * 2
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value + 1

def compiled():
    torch._dynamo.reset()
    print(torch.compile(exchange, backend="eager", fullgraph=True)(torch.ones(2)).tolist())

join(0, 1)
compiled()
train(torch.nn.Linear(8, 1), 10)
compiled()
"""


@pytest.mark.parametrize("first", ["", "import torch.distributed._functional_collectives\n"])
def test_what_compiles_into_one_graph_does_so_while_recorded_and_afterwards(run: Run, first: str) -> None:
    ran = run(first + COMPILED, **{ENV_STEPS: "5"})

    assert (ran.code, ran.out) == (0, "[3.0, 3.0]\n[3.0, 3.0]\n"), ran.err
    assert ran.trainer.noted("end")[0]["reason"] == "steps"
