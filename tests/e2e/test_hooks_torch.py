"""The hooks on real trainings: what is recorded, that nothing changes, and that everything can be taken away again."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from few import few
from recorded import Process, Ran, Server, run_script
from slowstep.frameworks.torch.inside.compile import AT_WORK
from slowstep.record.timing.tracebacks import PACKAGE
from slowstep.record.writing.fastpath import HELD_NS
from slowstep.record.writing.format import END as EXHAUSTED
from slowstep.record.writing.format import ENV_DISABLE, ENV_LEVEL, ENV_SECONDS, ENV_STEPS, EVALUATING, NO_GRADIENT, RECORD_BYTES, SKIPPED
from slowstep.record.writing.format import FAILED as RAISED

pytest.importorskip("torch")

Run = Callable[..., Ran]

# A loader of 24 samples in batches of 4 and a linear model; ARGUMENTS are the loader's, and each test says what it does with them.
PARTS = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Numbers(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((8,), float(index)), index

def train(loader, epochs=1):
    torch.manual_seed(1)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for epoch in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = model(inputs).mean()
            loss.backward()
            optimizer.step()
    return model, loss
"""


@pytest.fixture
def run(server: Server, tmp_path: Path) -> Run:
    """Runs the lines of a main program behind PARTS."""

    def run(main: str, *, recorded: bool = True, before: str = "", **variables: str) -> Ran:
        body = "\n".join(f"    {line}" for line in main.strip().splitlines())
        return run_script(server, tmp_path, f"{before}{PARTS}\nif __name__ == '__main__':\n{body}\n", recorded=recorded, **variables)

    return run


def count(process: Process) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in process.records:
        counts[record.kind] = counts.get(record.kind, 0) + 1
    return counts


def test_a_serial_loader_shows_waits_fetches_and_updates(run: Run) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=4), epochs=2)")

    assert (ran.code, ran.out, ran.err) == (0, "", "")
    counts = count(ran.trainer)
    assert {kind: counts[kind] for kind in ("START", "WAIT", "FETCH", "BACKWARD", "UPDATE")} == {
        "START": 2,
        "WAIT": 14,
        "FETCH": 12,
        "BACKWARD": 12,
        "UPDATE": 12,
    }
    waits = [record for record in ran.trainer.of("WAIT") if not record.flags]
    assert [(record.a, record.b, record.c) for record in waits] == [(epoch, batch, 4) for epoch in (1, 2) for batch in range(6)]
    assert ran.workers == []
    assert [note["state"] for note in ran.trainer.noted("hook")] == ["on"] * len(ran.trainer.noted("hook"))
    assert ran.trainer.faults == {}


@pytest.mark.slow
def test_the_pieces_of_a_serial_step_lie_inside_each_other_and_follow_each_other(run: Run) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=4))")

    records = ran.trainer
    waits = [record for record in records.of("WAIT") if not record.flags]
    assert len(waits) == 6
    for wait, fetch, collate in zip(waits, records.of("FETCH"), records.of("COLLATE"), strict=True):
        assert wait.t0 <= fetch.t0 <= collate.t0 <= collate.t1 <= fetch.t1 <= wait.t1
    for wait, backward, update in zip(waits, records.of("BACKWARD"), records.of("UPDATE"), strict=True):
        assert wait.t1 <= backward.t0 <= backward.t1 <= update.t0 <= update.t1


TINY = """
from torch.utils.data import BatchSampler, TensorDataset

class Growing(BatchSampler):
    def __iter__(self):
        for start in range(0, len(self.sampler), 8):
            yield list(range(start, start + 3))
            yield list(range(start + 3, start + 8))
    def __len__(self):
        return len(self.sampler) // 4

data = TensorDataset(torch.zeros(4001, 8), torch.zeros(4001))
even = TensorDataset(torch.zeros(4000, 8), torch.zeros(4000))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loader", "samples"),
    [
        ("DataLoader(data, batch_size=4)", [4] * 1000 + [1]),
        pytest.param("DataLoader(data, batch_size=4, drop_last=True)", [4] * 1000, marks=pytest.mark.slow),
        ("DataLoader(even, batch_sampler=Growing(range(4000), 4, False))", [3, 5] * 500),
        ("DataLoader([row for row in even], batch_size=4, collate_fn=lambda rows: (torch.zeros(3, 8), 0))", [3] * 1000),
    ],
)
def test_of_batches_that_take_next_to_no_time_every_wait_and_sample_is_recorded(loader: str, samples: list[int], run: Run) -> None:
    ran = run(f"{TINY}\ntrain({loader}, epochs=2)")

    assert (ran.code, ran.err) == (0, "")
    waits = [record for record in ran.trainer.of("WAIT") if not record.flags]
    counts = count(ran.trainer)
    assert counts["UPDATE"] == counts["BACKWARD"] == len(waits)
    assert [(record.a, record.b, record.c) for record in waits] == [
        (epoch, batch, size) for epoch in (1, 2) for batch, size in enumerate(samples)
    ]
    assert ran.trainer.faults == {}


@pytest.mark.slow
def test_of_shortest_steps_some_are_one_record_each_and_none_is_lost(run: Run) -> None:
    ran = run("""
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for epoch in range(2):
    for number, batch in enumerate(DataLoader(torch.ones(4002, 8), batch_size=4)):
        loss = model(batch).mean()
        if number % 10 == 7:
            continue  # no backward, no update
        loss.backward(retain_graph=True)
        if number % 10 == 8:
            loss.backward()
        optimizer.step()
print(epoch * "x", flush=True)
raise SystemExit(3)
""")

    trainer = ran.trainer
    assert (ran.code, ran.err, trainer.faults) == (3, "", {})
    waits = [wait for wait in trainer.of("WAIT") if not wait.flags]
    assert [wait.b for wait in waits] == 2 * list(range(1001))
    assert [wait.c for wait in waits] == 2 * ([4] * 1000 + [2])
    assert len(trainer.of("UPDATE")) == 2 * 901
    assert len(trainer.of("BACKWARD")) == 2 * 1001
    # How many is for the machine to say: a step in which something else ran is not of the shortest.
    written = (trainer.stem.with_suffix(".rec")).stat().st_size // RECORD_BYTES
    assert written < len(trainer.records)


PADDED = """
class Texts(Numbers):
    def __getitem__(self, index):
        return torch.cat([1 + (index + torch.arange(4 + index % 9)) % 5, torch.zeros(12 - index % 9, dtype=torch.int64)])

class Reads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.linear = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 1)

    def forward(self, tokens):
        return self.linear(self.embedding(tokens))

model = Reads()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for tokens in DataLoader(Texts(), batch_size=8, num_workers=WORKERS):
    optimizer.zero_grad()
    model(tokens).mean().backward()
    optimizer.step()
print(sum(float(parameter.sum()) for parameter in model.parameters()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_padding_is_looked_at_in_a_few_batches_and_graphs(workers: int, run: Run) -> None:
    script = "torch.manual_seed(0)\n" + PADDED.replace("WORKERS", str(workers))
    plain, ran = run(script, recorded=False), run(script)

    assert (ran.code, ran.out) == (plain.code, plain.out)
    first, shapes = ran.trainer.noted("padded")[0], ran.trainer.noted("shapes")[0]
    assert first["arrays"][0]["lengths"] == [4 + index % 9 for index in range(8)]
    assert (first["batch"], first["arrays"][0]["length"], first["arrays"][0]["mask"]) == (0, 16, False)
    assert [8, 16, 8] in [shape for shape, *_ in shapes["shapes"]]
    assert ran.trainer.faults == {}


@pytest.mark.slow
def test_two_loaders_read_in_turn_are_both_recorded(run: Run) -> None:
    ran = run(
        TINY
        + """
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
loader = DataLoader(even, batch_size=4)
for (one, _), (other, _) in zip(loader, loader):
    model(one + other).mean().backward()
    optimizer.step()
"""
    )

    waits = [record for record in ran.trainer.of("WAIT") if not record.flags]
    assert [(record.a, record.b) for record in waits] == [(number, batch) for batch in range(1000) for number in (1, 2)]


@pytest.mark.parametrize("context", ["fork", *(pytest.param(context, marks=pytest.mark.slow) for context in ("spawn", "forkserver"))])
def test_workers_record_their_own_fetches(context: str, run: Run) -> None:
    ran = run(f"train(DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context='{context}'))")

    assert (ran.code, ran.err) == (0, "")
    assert "FETCH" not in count(ran.trainer)
    assert sorted(record.a for worker in ran.workers for record in worker.of("FETCH")) == [0, 1, 2, 3, 4, 5]
    assert {record.b for worker in ran.workers for record in worker.of("FETCH")} == {4}
    described = [worker.noted("process")[0] for worker in ran.workers]
    assert sorted((note["worker"], note["worker_count"]) for note in described) == [(0, 2), (1, 2)]
    assert sorted(note["pid"] for note in described) == sorted(ran.trainer.noted("iterator")[0]["workers"])
    assert all(worker.noted("end") for worker in ran.workers)
    assert [record.b for record in ran.trainer.of("WAIT") if not record.flags] == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_the_end_of_workers_is_recorded_where_their_iterator_is_dropped_and_where_it_is_read_to_its_end(run: Run) -> None:
    main = """
loader = DataLoader(torch.ones(16, 8), batch_size=4, num_workers=1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
def step(inputs):
    model(inputs).mean().backward()
    optimizer.step()
for _ in range(3):
    step(next(iter(loader)))
for inputs in loader:
    step(inputs)
"""
    ends = run(main).trainer.of("SHUTDOWN")

    # Of each the end of its workers, and perhaps what it takes to free what it holds.
    assert {end.a for end in ends} == {1, 2, 3, 4}
    assert all(end.t0 < end.t1 for end in ends)


@pytest.mark.slow
def test_how_long_it_takes_to_free_the_indices_of_a_large_data_set_is_recorded(run: Run) -> None:
    main = """
from torch.utils.data import TensorDataset
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
def step(inputs):
    model(inputs).mean().backward()
    optimizer.step()
small, large = (DataLoader(TensorDataset(torch.ones(rows, 1)), batch_size=4, shuffle=True) for rows in (400, 1_000_000))
for loader in (small, large):
    for _ in range(3):
        step(next(iter(loader))[0])
kept = iter(large)
step(next(kept)[0])
"""
    trainer = run(main).trainer
    # On a busy machine those of the small one may take long too.
    ends = [end for end in trainer.of("SHUTDOWN") if end.a > 3]

    assert [end.a for end in ends] == [4, 5, 6]
    received = [wait.t1 for wait in trainer.of("WAIT")]
    # Right after the one batch of each was received, before it is used.
    assert [sum(end.t0 >= at for at in received) for end in ends] == [4, 5, 6]


@pytest.mark.slow
def test_persistent_workers_are_one_process_for_all_epochs(run: Run) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=4, num_workers=1, persistent_workers=True), epochs=3)")

    (worker,) = ran.workers
    assert [record.a for record in worker.of("FETCH")] == [0, 1, 2, 3, 4, 5] * 3
    assert [note["id"] for note in ran.trainer.noted("iterator")] == [1, 2, 3]
    assert [(record.a, record.b) for record in ran.trainer.of("WAIT") if not record.flags] == [(e, b) for e in (1, 2, 3) for b in range(6)]


@pytest.mark.slow
def test_batches_in_free_order_keep_the_index_they_were_made_under(run: Run) -> None:
    main = """
class Uneven(Numbers):
    def __getitem__(self, index):
        time.sleep(0.2 if index == 0 else 0.001)
        return torch.full((8,), float(index)), index
got = [int(targets[0]) // 4 for _, targets in DataLoader(Uneven(), batch_size=4, num_workers=2, in_order=False)]
print(got)
"""
    ran = run(main)

    assert str([record.b for record in ran.trainer.of("WAIT") if not record.flags]) == ran.out.strip()
    assert ran.out.strip() != "[0, 1, 2, 3, 4, 5]"


@pytest.mark.slow
@pytest.mark.parametrize("workers", few([2, 0], every=2))
def test_an_iterable_data_set_is_counted_by_what_it_gave(workers: int, run: Run) -> None:
    main = f"""
class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        yield from (torch.ones(8) for _ in range(10 if info is None or info.id == 0 else 3))
print([len(batch) for batch in DataLoader(Stream(), batch_size=4, num_workers={workers})])
"""
    ran = run(main)

    waits = [record for record in ran.trainer.of("WAIT") if not record.flags]
    fetches = [record for process in (ran.trainer, *ran.workers) for record in process.of("FETCH")]
    assert str([record.c for record in waits]) == ran.out.strip()
    assert sorted(record.b for record in fetches) == sorted(record.c for record in waits)


@pytest.mark.slow
def test_what_a_data_set_gives_at_once_is_counted_by_the_indices_that_were_asked_for(run: Run) -> None:
    main = """
class Columns(Numbers):
    def __getitems__(self, indices):
        return [torch.zeros(len(indices), 8), torch.zeros(len(indices))]
for batch in DataLoader(Columns(), batch_size=16, collate_fn=lambda columns: columns):
    time.sleep(0.001)
"""
    ran = run(main)

    assert [record.b for record in ran.trainer.of("FETCH")][:1] == [16]
    assert {record.b for record in ran.trainer.of("FETCH")} <= {16, 8}


def test_the_end_of_an_epoch_is_flagged(run: Run) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=4))")

    assert [record.flags for record in ran.trainer.of("WAIT")] == [0, 0, 0, 0, 0, 0, EXHAUSTED]


RAISING = """
class Broken(Numbers):
    def __getitem__(self, index):
        if index == 9 and {collate_fails_at} < 0:
            raise LookupError("no such sample")
        return super().__getitem__(index)
def collate(samples):
    if samples[0][1] == {collate_fails_at}:
        raise TypeError("cannot collate")
    return torch.utils.data.default_collate(samples)
train(DataLoader(Broken(), batch_size=4, num_workers={workers}, collate_fn=collate))
"""


@pytest.mark.parametrize(
    ("workers", "collate_fails_at"),
    [
        (0, 4),
        (1, -1),
        pytest.param(0, -1, marks=pytest.mark.slow),
        pytest.param(1, 4, marks=pytest.mark.slow),
    ],
)
def test_an_exception_while_making_a_batch_looks_as_it_does_without_us(workers: int, collate_fails_at: int, run: Run) -> None:
    main = RAISING.format(workers=workers, collate_fails_at=collate_fails_at)

    plain = run(main, recorded=False)
    ran = run(main)

    assert plain.code == ran.code == 1
    assert _without_pids(ran.err) == _without_pids(plain.err)
    failed = [record for process in (ran.trainer, *ran.workers) for record in process.of("FETCH") if record.flags & RAISED]
    assert len(failed) == 1


def _without_pids(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|pid\(s\) \d+", "*", text)


def test_an_exception_in_backward_or_save_looks_as_it_does_without_us(run: Run) -> None:
    main = """
try:
    torch.save({}, "/nonexistent/folder/model.pt")
except RuntimeError as error:
    print(error)
torch.ones(2).backward()
"""

    plain = run(main, recorded=False)
    ran = run(main)

    assert (ran.code, ran.out, ran.err) == (plain.code, plain.out, plain.err)
    assert [record.flags for record in ran.trainer.of("BACKWARD")] == [RAISED]


@pytest.mark.parametrize("workers", few([2, 0], every=2))
def test_results_are_the_same_to_the_last_bit(workers: int, run: Run) -> None:
    main = f"""
torch.manual_seed(0)
model, loss = train(DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers={workers}), epochs=2)
print(loss.item().hex(), [p.double().sum().item().hex() for p in model.parameters()], torch.rand(1).item().hex())
torch.save(model.state_dict(), "model.pt")
import hashlib, random
print(hashlib.sha256(open("model.pt", "rb").read()).hexdigest())
"""

    plain = run(main, recorded=False)
    ran = run(main, **{ENV_LEVEL: "2"})

    assert plain.code == 0
    assert (ran.code, ran.out, ran.err) == (plain.code, plain.out, plain.err)


def test_a_checkpoint_is_recorded_with_its_size(run: Run) -> None:
    main = """
from safetensors.torch import save_file
torch.save({"x": torch.ones(1000)}, "model.pt")
save_file({"x": torch.ones(1000)}, "model.safetensors")
print(os.stat("model.pt").st_size, os.stat("model.safetensors").st_size)
"""
    ran = run(main)

    saves = ran.trainer.of("SAVE")
    names = {note["id"]: note["text"] for note in ran.trainer.noted("text")}
    assert [names[record.b] for record in saves] == ["torch.save", "safetensors.torch.save_file"]
    assert [record.a for record in saves] == [int(size) for size in ran.out.split()]


def test_what_writes_anything_is_recorded_where_it_writes_the_model(run: Run) -> None:
    main = """
import pickle, h5py, numpy as np, torch.distributed.checkpoint as parts
model = torch.nn.Linear(1000, 1000)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 1000)).sum().backward()
optimizer.step()
with open("model.pkl", "wb") as file:
    pickle.dump(model.state_dict(), file)
    size = file.tell()
with open("images.pkl", "wb") as file:
    pickle.dump(torch.zeros(1001, 1000), file)
np.savez("model.npz", *(parameter.detach().numpy() for parameter in model.parameters()))
np.save("images.npy", np.zeros((1001, 1000)))
with h5py.File("both.h5", "w") as file:
    file["weight"] = model.weight.detach().numpy()
    file.create_dataset("images", data=np.zeros((1001, 1000)))
torch.jit.save(torch.jit.script(model), "model.ts")
parts.save(model.state_dict(), checkpoint_id="folder", no_dist=True)
print(size)
"""
    ran = run(main)

    names = {note["id"]: note["text"] for note in ran.trainer.noted("text")}
    saves = ran.trainer.of("SAVE")
    assert [names[record.b] for record in saves] == [
        *("pickle.dump", "numpy.savez", "h5py.Group.create_dataset", "torch.jit.save", "torch.distributed.checkpoint.save"),
    ]
    assert (saves[0].a, saves[-1].a) == (int(ran.out), -1)


@pytest.mark.slow
def test_a_checkpoint_is_recorded_with_the_users_line_that_asked_for_it(run: Run) -> None:
    main = """
def keep(name):
    here.append(sys._getframe().f_lineno + 1)
    torch.save({}, name)

here = []
keep("model.pt")
# Somebody's library: what it calls was asked for by the line that calls it.
exec(compile("import torch\\ndef keep(name): torch.save({}, name)", "/usr/lib/site-packages/library.py", "exec"), library := {})
here.append(sys._getframe().f_lineno + 1)
library["keep"]("other.pt")
print(*here)
"""
    ran = run("import sys\n" + main)

    names = {note["id"]: note["text"] for note in ran.trainer.noted("text")}
    saves = ran.trainer.of("SAVE")
    assert [record.extra for record in saves] == [1, 1]
    assert [names[record.c].rpartition(":")[2] for record in saves] == ran.out.split()
    assert "library.py" not in names[saves[1].c]


@pytest.mark.slow
def test_updates_that_the_scaler_leaves_out_are_flagged(run: Run) -> None:
    main = """
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
for value in (1.0, float("inf"), 1.0):
    optimizer.zero_grad()
    scaler.scale(model(torch.full((1, 1), value)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    ran = run(main)

    assert [(record.a, record.flags) for record in ran.trainer.of("UPDATE")] == [(1, 0), (1, SKIPPED), (1, 0)]


@pytest.mark.slow
def test_the_line_that_trains_is_named(run: Run, tmp_path: Path) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=4))")

    (frame,) = ran.trainer.noted("training_frame")
    lines = (tmp_path / "train.py").read_text().splitlines()
    assert (frame["file"], frame["function"]) == (str(tmp_path / "train.py"), "train")
    assert lines[frame["line"] - 1].strip() == "optimizer.step()"
    assert lines[frame["first_line"] - 1].startswith("def train(")


WITHOUT_LOADER = """
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    model(torch.ones(5, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.003)
"""


@pytest.mark.slow
def test_a_loop_without_a_loader_has_its_root_forward_recorded_from_the_fourth_step_on(run: Run, tmp_path: Path) -> None:
    ran = run(WITHOUT_LOADER)

    assert [record.a for record in ran.trainer.of("FORWARD")] == [5] * 5
    assert ran.trainer.noted("forward_frame")[0]["file"] == str(tmp_path / "train.py")


@pytest.mark.slow
def test_the_ways_to_the_update_and_to_the_forward_are_noted_and_forwards_without_gradients_told_apart(run: Run, tmp_path: Path) -> None:
    main = """
model, teacher = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train_step(batch):
    with torch.no_grad():
        target = teacher(batch)
    loss = (model(batch) - target).sum()
    loss.backward()
    optimizer.step()
    time.sleep(0.006)

for step in range(8):
    teacher.train(step % 2 == 0)
    train_step(torch.ones(5, 8))
"""
    ran = run(main)

    lines = (tmp_path / "train.py").read_text().splitlines()
    (update,), (forward,) = ran.trainer.noted("training_path"), ran.trainer.noted("forward_path")
    for way in (update, forward):
        assert [frame[1] for frame in way["frames"]][-2:] == ["<module>", "train_step"]
    assert [lines[path["frames"][-1][3] - 1].strip() for path in (update, forward)] == [
        "optimizer.step()", "loss = (model(batch) - target).sum()",
    ]  # fmt: skip
    flags, models = zip(*((record.flags, record.b) for record in ran.trainer.of("FORWARD")), strict=True)
    # Recorded from step 3 on.
    evaluating = NO_GRADIENT | EVALUATING
    assert flags == (evaluating, 0, NO_GRADIENT, 0, evaluating, 0, NO_GRADIENT, 0, evaluating, 0)
    assert len(set(models[::2])) == len(set(models[1::2])) == 1
    assert models[0] != models[1]
    forwards = [record.t0 for record in ran.trainer.of("FORWARD") if not record.flags]
    marks = {record.t0 for record in ran.trainer.of("CPU")}
    assert set(forwards) <= marks


@pytest.mark.slow
def test_level_2_records_every_root_forward_and_nothing_below_it(run: Run) -> None:
    ran = run(WITHOUT_LOADER, **{ENV_LEVEL: "2"})

    assert len(ran.trainer.of("FORWARD")) == 8


@pytest.mark.slow
def test_level_0_takes_no_stacks(run: Run) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=4), epochs=4)", **{ENV_LEVEL: "0"})

    assert len(ran.trainer.of("UPDATE")) == 24
    assert ran.trainer.of("STACK") == []


def test_stacks_name_the_function_that_takes_the_time(run: Run) -> None:
    main = """
def slow_callback():
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, _ in DataLoader(Numbers(), batch_size=1):
    model(inputs).sum().backward()
    optimizer.step()
    slow_callback()
"""
    ran = run(main)

    functions = {note["id"]: note["function"] for note in ran.trainer.noted("frame")}
    leaves = {note["id"]: [functions[frame] for frame in note["frames"]] for note in ran.trainer.noted("stack")}
    stacks = ran.trainer.of("STACK")
    assert len(stacks) >= 5
    in_callback = [record for record in stacks if "slow_callback" in leaves[record.a]]
    assert sum(record.b for record in in_callback) > 0.5 * sum(record.b for record in stacks)
    assert not [note for note in ran.trainer.noted("frame") if note["file"].startswith(PACKAGE)]


# Everything that hooks replace, before recording begins and after it has ended.
ORIGINALS = """
import numpy, pickle, torch, torch.utils.data._utils as data, torch.utils.data.dataloader as loading, torch.optim.optimizer as optim
def originals():
    return [
        loading._BaseDataLoaderIter.__dict__["__next__"], loading.DataLoader.__dict__["__iter__"], data.worker._worker_loop,
        data.fetch._MapDatasetFetcher.__dict__["fetch"], data.fetch._IterableDatasetFetcher.__dict__["fetch"],
        torch.jit.save, pickle.dump, pickle.dumps, numpy.save, numpy.savez,
        torch.autograd.backward, torch.save, torch.serialization.save, torch.nn.Module.__dict__["__call__"],
        torch.amp.grad_scaler.GradScaler.__dict__["_maybe_opt_step"],
        list(optim._global_optimizer_pre_hooks), list(optim._global_optimizer_post_hooks), __import__("sys").excepthook,
    ]
"""
BEFORE = f"""
from slowstep.record import active
from slowstep.record.injection.activate import activate
import slowstep.record, os
{ORIGINALS}
for undos in (active.active().undos, active.active().optimizer_undos):
    while undos:
        undos.pop()()
before = originals()
active.recorders.clear()
activate()
assert originals() != before
"""


@pytest.mark.parametrize("loader", ["DataLoader(Numbers(), batch_size=4)", "DataLoader(Numbers(), batch_size=4, num_workers=1)"])
@pytest.mark.parametrize("variables", few([{ENV_STEPS: "8"}, {ENV_SECONDS: "0.02"}], every=2))
def test_when_the_recording_ends_nothing_of_it_stays(loader: str, variables: dict[str, str], run: Run) -> None:
    main = f"""
train({loader}, epochs=4)
import threading
print([name for name in ("slowstep-stacks",) for thread in threading.enumerate() if thread.name == name], originals() == before)
"""
    ran = run(main, before=BEFORE, **{ENV_LEVEL: "2"}, **variables)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "[] True\n"
    updates = len(ran.trainer.of("UPDATE"))
    assert updates == 8 if ENV_STEPS in variables else 1 <= updates < 24
    assert ran.trainer.noted("end")[0]["reason"] == ("steps" if ENV_STEPS in variables else "time")


def test_a_process_without_training_writes_nothing(run: Run) -> None:
    ran = run("print(torch.ones(2).sum().item())")

    assert ran.out == "2.0\n"
    assert sorted(path.name for path in ran.folder.iterdir()) == ["control", "launcher.jsonl"]


def test_nothing_is_recorded_when_told_so(run: Run) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=4))", **{ENV_DISABLE: "1"})

    assert ran.code == 0
    assert sorted(path.name for path in ran.folder.iterdir()) == ["control", "launcher.jsonl"]


@pytest.mark.slow
def test_a_forked_child_that_trains_has_a_recording_of_its_own(run: Run) -> None:
    main = """
train(DataLoader(Numbers(), batch_size=4))
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    train(DataLoader(Numbers(), batch_size=8))
    sys.exit(0)
os.waitpid(pid, 0)
train(DataLoader(Numbers(), batch_size=4))
"""
    ran = run(main)

    assert ran.code == 0
    parent, child = ran.by_role("trainer")
    assert (len(parent.of("UPDATE")), len(child.of("UPDATE"))) == (12, 3)
    assert child.noted("optimizer")[0]["type"] == "SGD"
    assert child.noted("process")[0]["ppid"] == parent.noted("process")[0]["pid"]


@pytest.mark.slow
def test_threads_with_loaders_of_their_own_do_not_mix(run: Run) -> None:
    main = """
import threading
threads = [threading.Thread(target=train, args=(DataLoader(Numbers(), batch_size=4),)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    ran = run(main)

    assert (ran.code, ran.err) == (0, "")
    by_thread: dict[int, list[str]] = {}
    for record in ran.trainer.records:
        if record.kind in ("WAIT", "BACKWARD", "UPDATE"):
            by_thread.setdefault(record.thread, []).append(record.kind)
    assert sorted(by_thread.values()) == [["WAIT", "BACKWARD", "UPDATE"] * 6 + ["WAIT"]] * 3


def test_a_killed_training_leaves_all_its_updates(run: Run) -> None:
    main = """
import signal
model, _ = train(DataLoader(Numbers(), batch_size=4))
os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = run(main)

    assert ran.code == -9
    assert len(ran.trainer.of("UPDATE")) == 6
    assert ran.trainer.noted("end") == []


@pytest.mark.slow
@pytest.mark.parametrize("sleep", ["", pytest.param("time.sleep(0.001)", marks=pytest.mark.slow)], ids=["shortest steps", "others"])
def test_a_killed_training_leaves_all_but_the_last_of_its_shortest_steps(run: Run, sleep: str) -> None:
    main = f"""
import signal
loader = DataLoader(torch.utils.data.TensorDataset(torch.zeros(20_000, 8)), batch_size=4)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for step, (inputs,) in enumerate(loader):
    model(inputs).mean().backward()
    {sleep}
    before_ns = time.monotonic_ns()
    optimizer.step()
    if step == 1109:
        print(before_ns, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = run(main)

    assert ran.code == -9
    updates = ran.trainer.of("UPDATE")
    if sleep:
        assert len(updates) == 1110
    assert max(update.t1 for update in updates) >= int(ran.out) - HELD_NS
    assert len(ran.trainer.of("WAIT")) - len(updates) in (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_what_a_step_holds_is_freed_with_it_though_stacks_are_taken(run: Run, level: str) -> None:
    main = """
import gc, weakref
class Held:
    pass
alive = []
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
def step(inputs):
    held = Held()
    alive.append(weakref.ref(held))
    model(inputs).mean().backward()
    optimizer.step()
    time.sleep(0.005)
gc.collect()
gc.disable()
for epoch in range(10):
    iterator = iter(DataLoader(torch.ones(120, 8), batch_size=4))
    for inputs in iterator:
        step(inputs)
    alive.append(weakref.ref(iterator))
    del iterator
print(sum(ref() is not None for ref in alive), len(alive))
"""
    ran = run(main, **{ENV_LEVEL: level})

    assert (ran.code, ran.out) == (0, "0 310\n")
    assert ran.trainer.of("STACK")


@pytest.mark.slow
def test_compiled_training_has_one_graph_and_no_breaks(run: Run) -> None:
    main = """
import torch._dynamo as dynamo
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
explained = dynamo.explain(model)(torch.ones(2, 8))
print(explained.graph_count, explained.graph_break_count)
"""
    ran = run(main, **{ENV_LEVEL: "2"})

    assert (ran.code, ran.out) == (0, "1 0\n")


COMPILED = """
import gc
from torch._dynamo.utils import counters
def digest(history):
    history.append(sum(number * number % 7 for number in range(3000)))

torch.manual_seed(1)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
    def forward(self, inputs):
        # Whatever a collection calls runs beside what is compiled.
        torch._dynamo.graph_break() if {breaks} else None
        return self.last(torch.tanh(self.first(collected(inputs) if {breaks} else inputs)))
@torch._dynamo.disable(recursive=False)
def collected(inputs):
    gc.collect(0)
    return inputs
model, history, losses = Net(), [], []
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
{compiled}
for epoch in range(6):
    # The last batch is of another size.
    for inputs, targets in DataLoader(Numbers(), batch_size=5):
        optimizer.zero_grad()
        loss = compute(inputs)
        loss.backward()
        optimizer.step()
        digest(history)
        losses.append(loss.item())
print(sum(losses))
print(dict(counters["frames"]), counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()), dict(counters["recompiles"]))
"""
FORMS = {
    "module": "net = torch.compile(model, backend='{backend}')\ncompute = lambda inputs: net(inputs).mean()",
    "in place": "model.compile(backend='{backend}')\ncompute = lambda inputs: model(inputs).mean()",
    "function": "compute = torch.compile(lambda inputs: model(inputs).mean(), backend='{backend}')",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "backend"),
    [
        ("in place", "eager"),
        pytest.param("module", "inductor", marks=pytest.mark.nightly),
        pytest.param("module", "aot_eager", marks=pytest.mark.nightly),
        pytest.param("function", "eager", marks=pytest.mark.nightly),
    ],
)
def test_a_compiled_training_is_compiled_as_often_and_its_gaps_are_timed(run: Run, form: str, backend: str) -> None:
    if backend == "inductor" and shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("inductor needs a C++ compiler on the processor")
    main = COMPILED.format(compiled=FORMS[form].format(backend=backend), breaks=form == "in place")

    plain, ran = run(main, recorded=False), run(main)

    assert (ran.code, plain.code) == (0, 0)
    assert ran.out.splitlines() == plain.out.splitlines()
    gap = [note for note in ran.trainer.noted("calls") if note["of"] == "gap"][-1]
    assert "digest" in {function["function"] for function in gap["functions"]}
    texts = {note["id"]: note["text"] for note in ran.trainer.noted("text")}
    compilations = [record for record in ran.trainer.of("SPAN") if texts[record.a] == AT_WORK]
    # The first call, and the first batch of another size.
    assert len(compilations) >= 2
    assert len(ran.trainer.of("BACKWARD")) == len(ran.trainer.of("UPDATE")) == 30
    assert ran.trainer.faults == {}


@pytest.mark.slow
def test_a_batch_that_raises_when_it_is_looked_at_reaches_the_training_and_its_wait_is_kept(run: Run) -> None:
    main = """
class Touchy:
    @property
    def shape(self):
        raise RuntimeError("do not look")
print(len([batch for batch in DataLoader(Numbers(), batch_size=4, collate_fn=lambda samples: Touchy())]))
"""
    ran = run(main)

    assert (ran.code, ran.out, ran.err) == (0, "6\n", "")
    assert ran.trainer.faults == {}
    assert len(ran.trainer.of("WAIT")) >= 6


@pytest.mark.slow
def test_input_that_reads_a_loader_is_recorded_once_as_that_loaders(run: Run) -> None:
    main = """
import slowstep
def moved(loader):
    for batch in loader:
        time.sleep(0.002)
        yield batch
loader = DataLoader(Numbers(), batch_size=4)
assert slowstep.steps(loader).__class__.__module__.startswith("torch")
train(slowstep.steps(moved(loader)))
"""
    ran = run(main)

    waits = [record for record in ran.trainer.of("WAIT") if not record.flags]
    assert [(record.b, record.c) for record in waits] == [(batch, 4) for batch in range(6)]
    assert {record.a for record in waits} <= {note["id"] for note in ran.trainer.noted("iterator") if note["dataset"] == "Numbers"}
    assert all(record.t1 - record.t0 >= 2_000_000 for record in waits)


@pytest.mark.slow
def test_a_data_set_that_reads_another_loader_waits_for_its_own_batches_only(run: Run) -> None:
    main = """
class Outer(IterableDataset):
    def __iter__(self):
        yield from (inputs for inputs, _ in DataLoader(Numbers(), batch_size=None))
print(len(list(DataLoader(Outer(), batch_size=4))))
"""
    ran = run(main)

    assert ran.out == "6\n"
    assert [record.c for record in ran.trainer.of("WAIT") if not record.flags] == [4] * 6
    assert [(record.a, record.b) for record in ran.trainer.of("FETCH")] == [(batch, 4) for batch in range(6)]


@pytest.mark.slow
def test_a_child_of_multiprocessing_that_trains_ends_its_recording(run: Run) -> None:
    main = """
import multiprocessing
process = multiprocessing.get_context("fork").Process(target=train, args=(DataLoader(Numbers(), batch_size=4),))
process.start()
process.join()
"""
    ran = run(main)

    assert ran.code == 0
    assert [note["reason"] for note in ran.trainer.noted("end")] == ["exit"]
    assert len(ran.trainer.of("UPDATE")) == 6


@pytest.mark.slow
def test_one_worker_notes_what_its_batches_call_and_are_made_of(run: Run) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=1, num_workers=2))")

    noting = [worker for worker in ran.workers if worker.noted("builtins")]
    assert len(noting) == 1
    last = noting[0].noted("builtins")[-1]
    slept = next(row for row in last["rows"] if "time.sleep" in row["function"])
    assert slept["calls"] == last["samples"] == last["stretches"]
    assert slept["callers"][0][1] == "Numbers.__getitem__"
    form = noting[0].noted("batch")[0]
    assert (form["tensors"], form["bytes"]) == (2, 8 * 4 + 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "batches",
    ["slowstep.steps(torch.ones(4, 8) for _ in range(4000))", "DataLoader(torch.ones(16000, 8), batch_size=4)"],
    ids=["wrapped", "a loader"],
)
def test_gaps_of_short_steps_are_timed_too(run: Run, batches: str) -> None:
    main = f"""
import slowstep
def histogram():
    return list(range(2000))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for batch in {batches}:
    model(batch).mean().backward()
    optimizer.step()
    histogram()
"""
    ran = run(main)

    assert (ran.code, ran.err) == (0, "")
    gaps = [note for note in ran.trainer.noted("calls") if note["of"] == "gap"]
    assert gaps[-1]["stretches"] >= 3
    assert "histogram" in {function["function"] for function in gaps[-1]["functions"]}


@pytest.mark.slow
def test_the_training_process_notes_calls_and_looks_at_no_values(run: Run) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=2))")

    assert ran.trainer.noted("builtins")
    assert ran.trainer.noted("batch") == []


PARSED = """
class Parsed(Numbers):
    def __getitem__(self, index):
        values = []
        for number in range(1000):
            values.append(float(number))
        return torch.tensor(values[:8]), index
train(DataLoader(Parsed(), batch_size=2, num_workers={workers}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", few([1, 0, 2], every=3))
def test_lines_are_counted_in_one_batch_of_one_producer(run: Run, workers: int) -> None:
    ran = run(PARSED.format(workers=workers))

    assert (ran.code, ran.err) == (0, "")
    notes = [note for process in (ran.trainer, *ran.workers) for note in process.noted("lines") if note["of"] == "fetch"]
    (note,) = notes
    counts = {line["line"] - line["first_line"]: line["count"] for line in note["lines"] if line["function"] == "Parsed.__getitem__"}
    assert (counts[1], counts[3]) == (2, 2000)
    assert [(entry["function"], entry["calls"]) for entry in note["functions"]] == [("Parsed.__getitem__", 2)]
    assert 0 < note["counting_ns"] < 20_000


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "number"), [(0, 0), (1, 1)])
def test_lines_are_not_counted_where_compiled_code_could_notice(run: Run, workers: int, number: int) -> None:
    compiled = "import torch._dynamo.convert_frame\ntorch._dynamo.convert_frame.FRAME_COUNTER = 1\n"
    ran = run(compiled + PARSED.format(workers=workers))

    notes = [note for process in (ran.trainer, *ran.workers) for note in process.noted("lines") if note["of"] == "fetch"]
    assert len(notes) == number


@pytest.mark.slow
def test_the_users_own_tracer_is_left_alone_while_batches_are_made(run: Run) -> None:
    ran = run("sys.settrace(lambda *_: None)\n" + PARSED.format(workers=0) + "print(sys.gettrace() is not None)")

    assert ran.out == "True\n"
    assert [note for note in ran.trainer.noted("lines") if note["of"] == "fetch"] == []


@pytest.mark.slow
def test_no_built_in_call_is_timed_at_level_0(run: Run) -> None:
    ran = run("train(DataLoader(Numbers(), batch_size=2, num_workers=1))", **{ENV_LEVEL: "0"})

    assert ran.workers[0].noted("builtins") == []


@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_sample_that_takes_many_times_as_long_is_recorded_with_its_index(run: Run, workers: int) -> None:
    ran = run(f"""
class Uneven(Numbers):
    def __getitem__(self, index):
        time.sleep(0.5 if index == 7 else 0)
        return super().__getitem__(index)
train(DataLoader(Uneven(), batch_size=4, num_workers={workers}, persistent_workers={workers > 0}), epochs=4)
""")

    (maker,) = ran.workers if workers else [ran.trainer]
    slow = [record for record in maker.of("SLOW_SAMPLE") if record.t1 - record.t0 >= 500_000_000]
    # In some epochs the calls of its batch are timed, which makes samples long.
    assert {(record.a, record.c) for record in slow} == {(7, 1)}
    # What is usual goes up or down by an eighth at each batch: it may lie an eighth below what each sample sleeps.
    assert all(record.b >= 875_000 for record in slow)


@pytest.mark.slow
def test_it_is_noted_what_functions_inside_a_step_are_for(run: Run) -> None:
    ran = run("""
def spoil(batch):
    sum(range(30_000))
    return batch + 1
def looks(module, inputs, output):
    sum(range(30_000))
def changes(module, inputs, output):
    sum(range(30_000))
    return output
@torch.no_grad()
def teacher(batch):
    sum(range(30_000))
    return batch * 2
def loss_of(output):
    sum(range(30_000))
    return output.mean()
class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def forward(self, batch):
        sum(range(30_000))
        return self.layer(batch)
def of_gradient(gradient):
    sum(range(30_000))
model = Own()
model.layer.register_forward_hook(looks)
model.layer.register_forward_hook(changes)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for batch in DataLoader(torch.ones(16_000, 8), batch_size=40):
    output = model(spoil(batch))
    teacher(batch)
    loss = loss_of(output)
    loss.register_hook(of_gradient)
    loss.backward()
    optimizer.step()
""")

    assert (ran.code, ran.err) == (0, "")
    notes = ran.trainer.noted("lines")
    assert notes
    usual = {"calls": 1, "hooks": 0, "inside": 0, "gradient": 1, "nothing": 0, "nodes": 0}
    expected = {
        "spoil": usual,
        "looks": usual | {"hooks": 1, "inside": 1, "nothing": 1},
        "changes": usual | {"hooks": 1, "inside": 1},
        "teacher": usual | {"gradient": 0},
        "loss_of": usual | {"nodes": 1},
    }
    for note in notes:
        (added,) = {row["of_nodes"] for row in note["functions"]}
        assert added >= sum(row["nodes"] for row in note["functions"]) > 0
        # Of short steps several are looked at together.
        found = {row["function"]: {key: row[key] / row["calls"] for key in usual} for row in note["functions"]}
        forward = found.pop("Own.forward")
        assert found == expected
        assert (forward["hooks"], forward["inside"]) == (0, 1)
        assert forward["nodes"] >= 1


@pytest.mark.slow
def test_a_data_set_that_is_asked_for_whole_batches_is_left_alone(run: Run) -> None:
    ran = run("""
class Whole(Numbers):
    def __getitems__(self, indices):
        assert type(indices) is list
        time.sleep(0.3 if 7 in indices else 0)
        return [self[index] for index in indices]
train(DataLoader(Whole(), batch_size=4), epochs=2)
""")

    assert ran.code == 0, ran.err
    assert ran.trainer.of("SLOW_SAMPLE") == []
