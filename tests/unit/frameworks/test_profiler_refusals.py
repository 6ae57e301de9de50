"""Where the profilers of TensorFlow and JAX are not started for a capture. The frameworks themselves are stood in for."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from slowstep.frameworks.jax.inside._capture import JaxProfiler
from slowstep.frameworks.tensorflow.inside._capture import TensorFlowProfiler


@pytest.fixture
def jax(monkeypatch):
    made = SimpleNamespace(backend="cpu", session=None)
    profiler = SimpleNamespace(_profile_state=SimpleNamespace(profile_session=None))
    made.profiler = profiler
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(default_backend=lambda: made.backend))
    monkeypatch.setitem(sys.modules, "jax._src.profiler", profiler)
    return made


@pytest.fixture
def tensorflow(monkeypatch):
    made = SimpleNamespace(devices=["CPU"], profiler=SimpleNamespace(_profiler=None))
    config = SimpleNamespace(list_logical_devices=lambda: [SimpleNamespace(device_type=kind) for kind in made.devices])
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    monkeypatch.setitem(sys.modules, "tensorflow.python.profiler.profiler_v2", made.profiler)
    return made


def test_on_a_processor_where_nobody_profiles_both_may(jax, tensorflow):
    assert JaxProfiler().refusal() is None
    assert TensorFlowProfiler().refusal() is None


def test_beside_the_scripts_own_neither_may(jax, tensorflow):
    jax.profiler._profile_state.profile_session = tensorflow.profiler._profiler = object()

    assert "is on already" in JaxProfiler().refusal()
    assert "is on already" in TensorFlowProfiler().refusal()


def test_beside_an_accelerator_neither_may(jax, tensorflow):
    jax.backend = "gpu"
    tensorflow.devices = ["CPU", "GPU"]

    assert "on gpu" in JaxProfiler().refusal()
    assert "on GPU" in TensorFlowProfiler().refusal()


def test_ours_is_told_before_jax_or_tensorflow_begin_a_session(jax, tensorflow):
    told = []
    jax.profiler._profiler = SimpleNamespace(ProfilerSession="a session of JAX", TraceMe="a mark")
    tensorflow.profiler._pywrap_profiler = SimpleNamespace(ProfilerSession="a session of TensorFlow")
    before = dict(vars(jax.profiler)), dict(vars(tensorflow.profiler))
    undos = [JaxProfiler().guard(lambda: told.append("jax")), TensorFlowProfiler().guard(lambda: told.append("tensorflow"))]

    assert (jax.profiler._profiler.TraceMe, told) == ("a mark", [])
    assert jax.profiler._profiler.ProfilerSession == "a session of JAX"
    assert tensorflow.profiler._pywrap_profiler.ProfilerSession == "a session of TensorFlow"
    assert told == ["jax", "tensorflow"]
    for undo in undos:
        undo()
    assert (vars(jax.profiler), vars(tensorflow.profiler)) == before
