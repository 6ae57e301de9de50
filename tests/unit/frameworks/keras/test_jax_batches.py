"""Batches that Keras gives a training on JAX: they are its own, and no input that a script names."""

from __future__ import annotations

from recorded import make_folder, only
from slowstep.frameworks.keras.inside.jax_input import JaxBatches, given_data
from slowstep.record.recorder import Recorder


def test_their_iterator_is_noted_as_one_of_keras(tmp_path):
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)

    assert list(JaxBatches(recorder, [1, 2], dataset="ArrayDataAdapter", loader=3)) == [1, 2]

    recorder.stop("exit")
    (note,) = only(recorder.folder).noted("iterator")
    assert (note["framework"], note["marked"], note["loader"]) == ("keras", False, 3)


class Pictures:
    pass


class Adapter:
    def __init__(self, **held: object) -> None:
        self.__dict__ |= held


def test_what_is_read_is_the_users_own_data_set_where_that_has_a_class():
    pictures, adapter = Pictures(), Adapter(array=[1])

    assert given_data(Adapter(py_dataset=pictures)) is pictures
    assert given_data(adapter) is adapter
