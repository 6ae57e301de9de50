"""Input and losses of real trainings whose loader is built with a lever, beside the same training as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from few import few
from levered import run_always, run_planned
from recorded import Server
from slowstep.prove.stats.claimed import compare_claimed
from slowstep.prove.stats.losses import LossReader, UpdateLosses
from slowstep.prove.whole_run import RunRequest
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.writing import format as fmt

pytest.importorskip("torch")

# Two epochs in another order each; what `draws` says is done with every sample.
SCRIPT = """
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, index):
        sample = torch.full((4,), float(index))
        return {sample}

torch.manual_seed(5)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
loader = DataLoader(Numbers(), 4, shuffle=True)
for epoch in range(2):
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
"""
AS_IT_IS, AUGMENTED = "sample", "sample + torch.rand(4)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lever", "sample", "first_other"),
    # Kept workers leave out a draw of each pass but the first: from then on an order that is drawn is another one.
    few([("workers=2", AS_IT_IS, 16), ("workers=2", AUGMENTED, 1)], every=2),
)
def test_a_loader_built_with_the_lever_gives_the_same_unless_samples_are_drawn_from_the_trainings_own_generator(
    server: Server, tmp_path: Path, lever: str, sample: str, first_other: int
) -> None:
    text = SCRIPT.replace("{sample}", sample)
    (tmp_path / "planned").mkdir()
    (note,) = run_planned(server, tmp_path / "planned", text, lever, blocks=(0,), steps=2).trainer.noted("made")

    def losses(name: str, *levers: str) -> UpdateLosses:
        (tmp_path / name).mkdir()
        specs = tuple(map(parse_spec, levers))
        asked = RunRequest(levers=specs, loader=note["loader_place"] if levers else None, seed_offset=0, losses=True)
        ran = run_always(server, tmp_path / name, text, **{fmt.ENV_EXPERIMENT: "1", **asked.variables()})
        assert (ran.code, ran.trainer.faults) == (0, {})
        assert [each["state"] for each in ran.trainer.noted("lever")][:1] == ["on"] * len(levers)
        return LossReader(ran.folder).read()

    found = compare_claimed(losses("as-is"), losses("again"), losses("changed", lever))

    assert (found.steps, found.repeats, found.holds) == (30, True, first_other != 1)
    assert (found.same_input, found.first_other, found.first_other_loss) == (False, first_other, first_other)
