"""What is written is a checkpoint by what it is, and by no name of what writes it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import pytest

from few import few
from recorded import make_folder
from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.record.recorder import Recorder
from slowstep.record.steps import saves
from slowstep.record.steps.held_parameters import HeldParameters, ParameterHolders
from slowstep.record.steps.saved_state import MOST_OTHERS, SavedState
from slowstep.record.steps.state_writers import install_joblib, install_numpy, install_pickle
from slowstep.record.writing.format import SAVE

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(make_folder(tmp_path / "recording"), level=0)


@pytest.fixture
def model(recorder: Recorder) -> Any:
    """One that an optimizer trains of which the recorder knows."""
    return trained(recorder, 1, torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 8)))


def trained(recorder: Recorder, number: int, model: Any) -> Any:
    model.optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 64)).sum().backward()
    model.optimizer.step()
    HeldParameters(FRAMEWORK, recorder.shared(ParameterHolders)).describe(model.optimizer, number)
    return model


def numpys(state: Any) -> Any:
    return {name: value.numpy() for name, value in state.items()}


STATES: dict[str, Callable[[Any], Any]] = {
    "parameters by name": lambda model: model.state_dict(),
    "the model itself": lambda model: model,
    "with what the optimizer keeps": lambda model: {"epoch": 3, "model": model.state_dict(), "optimizer": model.optimizer.state_dict()},
    "the optimizer alone": lambda model: model.optimizer,
    "arrays that share the memory": lambda model: numpys(model.state_dict()),
    "copies": lambda model: numpys(copy.deepcopy(model).state_dict()),
    "a list of copies": lambda model: [each.detach().clone() for each in model.parameters()],
    "an averaged model in an object": lambda model: SimpleNamespace(step=1, average=copy.deepcopy(model), best=0.5),
    "one parameter itself": lambda model: model[0].weight.detach().numpy(),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda model: None,
    "predictions": lambda model: np.zeros((1000, 8), np.float32),
    "pictures": lambda model: {"real": np.zeros((16, 3, 32, 32)), "made": torch.zeros(16, 3, 32, 32)},
    "metrics": lambda model: [{"loss": 0.1, "step": step} for step in range(1000)],
    "another model": lambda model: torch.nn.Linear(100, 100),
    "an array of a parameter's shape": lambda model: np.zeros((32, 64), np.float32),
    "features with a small part of the model": lambda model: {"features": np.zeros((1000, 64)), "head": model[2].weight},
    "more than is looked at": lambda model: [[number] for number in range(100_000)],
}


@pytest.mark.parametrize("given", STATES.values(), ids=STATES)
def test_parameters_copies_of_them_and_what_is_kept_for_them_are_the_state(
    given: Callable[[Any], Any], recorder: Recorder, model: Any
) -> None:
    assert recorder.shared(SavedState).is_most_of(given(model))


@pytest.mark.parametrize("given", few(OTHERS.values(), every=4), ids=OTHERS)
def test_what_a_training_writes_besides_is_not(given: Callable[[Any], Any], recorder: Recorder, model: Any) -> None:
    assert not recorder.shared(SavedState).is_most_of(given(model))


def test_of_two_models_either_is_state(recorder: Recorder, model: Any) -> None:
    small = trained(recorder, 2, torch.nn.Linear(64, 2))

    assert recorder.shared(SavedState).is_most_of(small.state_dict())
    assert recorder.shared(SavedState).is_most_of(copy.deepcopy(small).state_dict())
    assert recorder.shared(SavedState).is_most_of(model.state_dict())


def test_nothing_is_state_where_no_optimizer_is_known(recorder: Recorder) -> None:
    assert not recorder.shared(SavedState).is_most_of(torch.nn.Linear(8, 8))


class Asked:
    """Whatever is asked of it beyond what it holds raises."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


def test_no_code_of_the_users_is_run(recorder: Recorder, model: Any) -> None:
    assert recorder.shared(SavedState).is_most_of(Asked([Asked(model.state_dict())]))


def line(number: int) -> tuple[CodeType, int]:
    return line.__code__, number


def test_a_line_that_writes_other_things_is_soon_looked_at_no_more_but_one_that_wrote_the_state_is(recorder: Recorder, model: Any) -> None:
    state, other = recorder.shared(SavedState), torch.zeros(7)
    state.is_written(model, line(1))
    for _ in range(MOST_OTHERS):
        state.is_written(other, line(1))
        state.is_written(other, line(2))

    assert [state.is_written(model, line(number)) for number in (1, 2, 3)] == [True, False, True]


@pytest.fixture
def written(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that are recorded as checkpoints, however short."""
    found: list[str] = []
    monkeypatch.setattr(saves, "SHORTEST_NS", 0)
    monkeypatch.setattr(recorder, "text_id", lambda text: found.append(text) or len(found))
    monkeypatch.setattr(recorder, "event", lambda kind, *fields: None if kind != SAVE else found.append("SAVE"))
    return found


def names(written: list[str]) -> list[str]:
    return [text for text in written if text.partition(".")[0] in ("pickle", "numpy", "joblib", "h5py")]


def test_pickles_of_the_state_are_checkpoints_and_the_function_stays_picklable(
    recorder: Recorder, model: Any, written: list[str], tmp_path: Path
) -> None:
    import pickle

    plain = pickle.dumps
    undo = install_pickle(recorder)
    try:
        with (tmp_path / "state").open("wb") as file:
            pickle.dump(model.state_dict(), file)
        text = pickle.dumps(model)
        pickle.dumps({"predictions": torch.zeros(100, 100)})
        assert pickle.loads(pickle.dumps(pickle.dumps)) is pickle.dumps
    finally:
        undo()

    assert pickle.dumps is plain
    assert torch.equal(pickle.loads(text)[0].weight, model[0].weight)
    assert names(written) == ["pickle.dump", "pickle.dumps"]


def test_a_built_in_function_binds_to_nothing_and_is_pickled_by_its_name(recorder: Recorder, model: Any) -> None:
    import pickle

    undo = install_pickle(recorder)
    try:
        store = type("Store", (), {"dumps": pickle.dumps})()
        kept = pickle.dumps
        assert pickle.loads(store.dumps([1, 2])) == [1, 2]
        assert kept.__name__ == "dumps"
    finally:
        undo()

    assert pickle.loads(pickle.dumps(kept)) is pickle.dumps


@pytest.mark.slow
def test_a_look_at_long_lists_ends_soon(recorder: Recorder, model: Any) -> None:
    met = 0

    class Numbers(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            nonlocal met
            met += 1
            return super().__iter__()

    state = recorder.shared(SavedState)

    assert not state.is_most_of([Numbers([number] * 5_000) for number in range(6_000)])
    assert met == 0


def test_arrays_are_a_checkpoint_where_they_are_the_models(recorder: Recorder, model: Any, written: list[str], tmp_path: Path) -> None:
    undo = install_numpy(recorder)
    try:
        np.savez(tmp_path / "model", **numpys(model.state_dict()))
        np.savez_compressed(tmp_path / "samples", made=np.zeros((8, 3, 32, 32)))
        np.save(tmp_path / "predictions.npy", np.zeros((64, 8)))
        np.save(tmp_path / "weight.npy", model[0].weight.detach().numpy())
    finally:
        undo()

    assert names(written) == ["numpy.savez", "numpy.save"]


def test_what_joblib_dumps_is_asked_too(recorder: Recorder, model: Any, written: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    joblib = SimpleNamespace(dump=lambda value, filename: [filename])
    plain = joblib.dump
    monkeypatch.setitem(__import__("sys").modules, "joblib", joblib)
    undo = install_joblib(recorder)

    assert (joblib.dump(model, "a"), joblib.dump([1.0], filename="b")) == (["a"], ["b"])
    undo()
    assert joblib.dump is plain
    assert names(written) == ["joblib.dump"]
