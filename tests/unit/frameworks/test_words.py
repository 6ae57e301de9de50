"""The words of frameworks are those of the installed versions, and rules write fixes in the words of the framework that trains."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest

import slowstep
from few import few
from made_measured_traces import made_measured
from made_recordings import Training, make_recording
from made_traces import host, made_trace, step
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measure_trace import measure_trace
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.rules.device import full_precision_matmul
from slowstep.frameworks._known import all_words, plain, words_of_loop, words_of_profiler
from slowstep.frameworks._profilers import OF_PROFILERS
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument, Words
from slowstep.sources.recording import SOURCE

ROOT = Path(slowstep.__path__[0])
OWN_LOOPS = [plain(), *(words for words in all_words().values() if words.loop is None and words != plain())]
PACKAGES = "/usr/lib/python3.11/site-packages"
LOOPS = {
    "lightning": [f"{PACKAGES}/lightning/pytorch/loops/fit_loop.py"],
    "transformers": [f"{PACKAGES}/transformers/trainer.py"],
    "accelerate": [f"{PACKAGES}/accelerate/optimizer.py"],
}
ARGUMENTS = [
    pytest.param(argument, id=f"{words.name}-{change.name}")
    for words in all_words().values()
    for change, argument in words.arguments.items()
    if isinstance(argument, Argument)
]
WORKERS = {Remedy.WORKERS: 2, Remedy.PERSISTENT_WORKERS: True}


@pytest.mark.slow
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_every_argument_is_one_of_the_installed_version(argument, monkeypatch):
    # By default Keras imports TensorFlow, which takes ten seconds.
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    for kind in ("Adam", "AdamW", "Adagrad") if "{kind}" in argument.owner else ("",):
        module, _, name = argument.owner.format(kind=kind).partition(":")
        called = attrgetter(name)(pytest.importorskip(module))

        assert argument.name in inspect.signature(called).parameters


def test_the_words_of_a_change_are_those_of_the_script():
    assert {name: words.write(WORKERS) for name, words in all_words().items()} == {
        "torch": "DataLoader(..., num_workers=2, persistent_workers=True)",
        "jax": f"DataLoader(..., num_workers=2, persistent_workers=True) ({all_words()['jax'].unforked})",
        "keras": "keras.utils.PyDataset(..., use_multiprocessing=True, workers=2)",
        "accelerate": "DataLoader(..., num_workers=2, persistent_workers=True), before accelerator.prepare()",
        "lightning": "DataLoader(..., num_workers=2, persistent_workers=True) in train_dataloader(), or where it is given to fit()",
        "transformers": "TrainingArguments(dataloader_num_workers=2, dataloader_persistent_workers=True)",
        "tensorflow": "a tf.data pipeline with map(..., num_parallel_calls=tf.data.AUTOTUNE), files read by "
        "interleave(..., num_parallel_calls=tf.data.AUTOTUNE), and prefetch(tf.data.AUTOTUNE) at its end",
    }


KINDS = {"PyDataset": True, "generator": True, "DataLoader": True, "arrays": False, "tf.data": False, "grain": False}


@pytest.mark.parametrize("reads", KINDS)
@pytest.mark.parametrize("computes", ["tensorflow", "jax", "torch"])
def test_beside_the_threads_of_jax_no_processes_are_forked(computes, reads):
    words = all_words()["keras"].computed_by(all_words()[computes]).reading(reads)

    assert ("'spawn'" in words.advise(Remedy.WORKERS, 2)) is (computes == "jax" and KINDS[reads])
    assert "'spawn'" not in words.write({Remedy.WORKERS: 0})
    assert "'spawn'" not in words.write({Remedy.PREFETCH: 2})


# What Keras' fit is asked for by an argument.
OF_FIT = {Remedy.VALIDATION_EPOCHS: 4, Remedy.VALIDATION_LENGTH: ..., Remedy.PROGRESS_BAR: False}
OF_CALLBACKS = {Remedy.CHECKPOINT_STEPS: ..., Remedy.CHECKPOINT_WEIGHTS: True, Remedy.LOGGING_STEPS: 50}


def test_what_only_a_frameworks_loop_does_has_no_word_in_one_of_the_scripts_own():
    words = all_words()["keras"]

    assert words.write(OF_FIT) == "fit(..., validation_freq=4, validation_steps=..., verbose=2)"
    assert words.write(OF_CALLBACKS) == (
        "keras.callbacks.ModelCheckpoint(..., save_freq=..., save_weights_only=True) and keras.callbacks.TensorBoard(..., update_freq=50)"
    )
    assert words.without_loop().write(OF_FIT | OF_CALLBACKS) == ""


@pytest.mark.parametrize(("reads", "has"), [("arrays", True), (None, False)])
def test_a_fit_says_what_it_reads_and_a_loop_of_the_scripts_own_reads_nothing(tmp_path, reads, has):
    files = [f"{PACKAGES}/keras/src/backend/tensorflow/trainer.py"]

    m = _measured(tmp_path, files, Training(), {"framework": "keras", "computes_with": "tensorflow", "reads": reads})

    assert (m.training.words.name, m.training.words.has(Remedy.VALIDATION_EPOCHS)) == ("keras", has)


def test_changes_without_a_word_are_left_out_and_values_are_written_as_code():
    trainer = all_words()["transformers"]

    assert trainer.write({Remedy.PREFETCH: 8, Remedy.ANY_ORDER: False}) == "TrainingArguments(dataloader_prefetch_factor=8)"
    assert trainer.write({Remedy.KEEP_LOADER: 0}) == ""
    assert trainer.write({Remedy.BFLOAT16: True}) == "TrainingArguments(bf16=True)"
    assert all_words()["lightning"].write({Remedy.BFLOAT16: True}) == 'Trainer(precision="bf16-mixed")'
    assert plain().write({Remedy.FUSED: True}, kind="Adam") == "torch.optim.Adam(..., fused=True)"
    assert plain().write({Remedy.BATCH_SIZE: ...}) == "DataLoader(..., batch_size=...)"


@pytest.mark.parametrize(("name", "files"), LOOPS.items())
def test_a_framework_is_known_by_a_file_of_its_loop(name, files):
    assert words_of_loop(["/home/user/train.py", *files]).name == name


def test_the_trainer_trains_where_it_has_the_optimizer_prepared_by_another_one():
    assert words_of_loop([*LOOPS["transformers"], *LOOPS["accelerate"]]).name == "transformers"


@pytest.mark.parametrize("files", [[], ["/home/user/train.py"], [f"{PACKAGES}/transformers/models/bert.py"]])
def test_a_loop_of_the_scripts_own_is_plain(files):
    assert words_of_loop(files) == plain()


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("lightning", host("[pl][profile][Strategy]SingleDeviceStrategy.training_step", 0, 90, kind="annotation")),
        ("transformers", host("/opt/site-packages/transformers/trainer.py(1943): _run_epoch", 0, 90, kind="python")),
        ("transformers", host("aten::mm", 0, 90, stack="train.py(7): step;transformers/trainer.py(1943): _run_epoch")),
        ("accelerate", host("accelerate/optimizer.py(152): step", 0, 90, kind="python")),
        ("torch", host("aten::mm", 0, 90, stack="train.py(7): step")),
    ],
)
def test_in_a_trace_a_framework_is_known_by_the_names_of_its_loop(name, event):
    trace = made_trace(hosts=[event, host("aten::relu", 90, 95)], steps=[step(n, 100 * n, 100 * n + 100) for n in range(3)])

    assert measure_trace(trace).training.words.name == name


@pytest.mark.parametrize(
    ("framework", "said"),
    [
        ("pytorch", "call prof.step() after each update"),
        ("TensorFlow", "put tf.profiler.experimental.Trace('train', step_num=step, _r=1) around each step"),
        ("jax", "put jax.profiler.StepTraceAnnotation('train', step_num=step) around each step"),
    ],
)
def test_in_a_trace_the_framework_whose_profiler_it_was_has_the_word(framework, said):
    assert words_of_profiler(framework).advise(Remedy.MARK_STEPS) == said


def test_where_it_is_unknown_who_trains_the_words_of_all_are_said():
    said = words_of_profiler(None).advise(Remedy.READ_SELDOM, every=50)
    own = [words for words in OWN_LOOPS if Remedy.READ_SELDOM in words.arguments]

    assert len(own) > 1
    assert [said.index(f"{words.title}: {words.advise(Remedy.READ_SELDOM, every=50)}") for words in own] == sorted(
        said.index(f"{words.title}: ") for words in own
    )
    assert "Lightning" not in said
    assert words_of_profiler(None).advise(Remedy.FUSED_ADAMW) == Remedy.FUSED_ADAMW.value
    assert "JAX" not in words_of_profiler(None).advise(Remedy.THREADS, threads=4)


def test_how_to_record_more_is_said_of_the_profiler_whoever_trains():
    for framework in (None, "pytorch"):
        words = words_of_profiler(framework, "nsys")

        assert words.advise(Remedy.RECORD_BOTH) == "record with nsys profile --trace=cuda,nvtx"
        assert "torch.compile" in words.advise(Remedy.FUSE_ELEMENTWISE)


@pytest.mark.parametrize("profiler", OF_PROFILERS)
def test_a_profiler_that_is_no_frameworks_has_a_phrase_for_all_that_a_next_trace_should_show(profiler):
    asked = {change for change in Remedy if change.name.startswith(("RECORD_", "NAME_", "MARK_"))}

    assert asked - OF_PROFILERS[profiler].keys() == set()


def test_what_a_framework_has_no_word_for_is_said_in_plain_ones():
    own, rests = Words(name="a", title="A", arguments={}), Words(name="b", title="B", arguments={}, rests_on=plain())

    assert own.advise(Remedy.MADE_ON_DEVICE) == Remedy.MADE_ON_DEVICE.value
    assert own.advise(Remedy.ON_DEVICE, operator="cumsum") == "bring cumsum to the device"
    assert rests.advise(Remedy.MADE_ON_DEVICE) == plain().advise(Remedy.MADE_ON_DEVICE)


def test_a_framework_that_trains_and_has_no_words_gets_those_of_no_other_one():
    words = words_of_loop(["/home/user/train.py"], "made")

    assert (words.name, words.title, dict(words.arguments)) == ("made", "made", {})
    assert words.write(WORKERS) == ""
    assert words.advise(Remedy.WORKERS, 2) == "give the loader more worker processes"
    assert words.name_of(Remedy.WORKERS, "workers") == "workers"


def test_a_phrase_has_places_for_other_changes_in_the_words_of_who_trains():
    assert plain().advise(Remedy.PINNED_BATCHES) == "DataLoader(..., pin_memory=True) and .to(device, non_blocking=True), both"
    assert all_words()["transformers"].advise(Remedy.FUSE_STEP) == (
        'TrainingArguments(torch_compile_mode="reduce-overhead") fuses kernels and launches the rest as a graph; '
        'TrainingArguments(optim="adamw_torch_fused")'
    )
    assert plain().advise(Remedy.FUSE_STEP).endswith("; an optimizer with fused=True")


@pytest.mark.parametrize("words", [*all_words().values(), *map(words_of_profiler, ("made", None))], ids=lambda words: words.title)
@pytest.mark.parametrize("profiler", [None, *OF_PROFILERS])
def test_every_phrase_is_written_with_no_place_left_open(words, profiler):
    given = {"every": 50, "operator": "cumsum", "name": "augment", "made": "load does", "workers": 4, "ahead": "prefetch", "threads": 2}
    given |= {
        "stream": "Lines",
        "kind": "Adam",
        "stage": "map",
        "function": "parse",
        "size": "1.0 kB",
        "argument": "x",
        "network": "teacher",
    }
    said = replace(words, profiler=OF_PROFILERS.get(profiler, {}))

    assert [change for change in Remedy if re.search(r"\{[A-Za-z+]*\}|True=", said.advise(change, **given).replace("{n}", ""))] == []


def test_everything_that_frameworks_have_words_for_is_asked_for_by_something_or_stands_in_a_phrase():
    code = "".join(
        path.read_text(encoding="utf-8") for room in ("analyses", "diagnosis", "workflow") for path in (ROOT / room).rglob("*.py")
    )
    phrases = "".join(each for words in all_words().values() for each in words.arguments.values() if isinstance(each, str))

    spared = {each for words in all_words().values() for each in words.spared.values()}
    asked = [change for change in Remedy if change in spared or re.search(rf"Remedy\.{change.name}\b", code)]
    assert [each for each in Remedy if each not in asked and not re.search(rf"\{{[A-Z_+]*\b{each.name}\b", phrases)] == []


def test_a_rule_about_traces_speaks_the_words_of_who_trains():
    judged = full_precision_matmul._fixes(made_measured(words=all_words()["lightning"], facts={"framework": "pytorch"}), None)

    assert judged[0].text == 'Trainer(precision="bf16-mixed")'


# Those whose trainings read loaders of PyTorch alone.
RESTING = {name: words for name, words in all_words().items() if plain().name in words._names()}


def _measured(folder: Path, loop: list[str], training: Training, facts: Mapping[str, str | None] | None = None) -> Measurements:
    """Of a recording whose optimizer is called from a framework's loop, which has said more of itself."""
    make_recording(folder, training)
    way = [["/home/user/project/train.py", "main", 10, 30]] + [[file, "run", 1, 2] for file in loop]
    more = [{"kind": "training_path", "optimizer": 0, "frames": way}, *([{"kind": "facts", **facts}] if facts else [])]
    with (folder / "100-1.jsonl").open("a") as notes:
        notes.writelines(json.dumps(note) + "\n" for note in more)
    return measure_recording(SOURCE.read(folder))


def _fixes(folder: Path, words: Words, training: Training) -> str:
    """All fixes of such a recording."""
    facts = None if words.name in LOOPS else {"framework": words.name}
    found = diagnose(_measured(folder, LOOPS.get(words.name, []), training, facts))
    return "\n".join(fix.text for finding in found.findings for fix in (*finding.fixes, *(f for o in finding.folded for f in o.fixes)))


@pytest.mark.parametrize("words", RESTING.values(), ids=RESTING)
def test_the_fix_of_a_serial_loader_is_in_the_words_of_who_trains(tmp_path, words):
    said = _fixes(tmp_path, words, Training(workers=0, getitem_ms=12.0))

    assert words.write({Remedy.WORKERS: 1, Remedy.PERSISTENT_WORKERS: True}) in said
    assert words.name != "transformers" or "DataLoader" not in said


@pytest.mark.parametrize(
    ("reads", "said"),
    few(
        [
            ("PyDataset", "keras.utils.PyDataset(..., use_multiprocessing=True, workers=1)"),
            ("generator", "a keras.utils.PyDataset(..., use_multiprocessing=True, workers=1) in place of the generator"),
            ("arrays", "converted once before fit()"),
            ("tf.data", "num_parallel_calls=tf.data.AUTOTUNE"),
            ("DataLoader", "DataLoader(..., num_workers=1, persistent_workers=True)"),
            ("grain", "give the loader more worker processes"),
        ],
        every=4,
    ),
)
@pytest.mark.parametrize("computes", ["tensorflow", "jax", "torch"])
def test_what_fit_reads_is_changed_in_the_words_of_its_kind_whatever_computes(tmp_path, computes, reads, said):
    file = f"{PACKAGES}/keras/src/backend/{computes}/trainer.py"
    facts = {"framework": "keras", "computes_with": computes, "reads": reads}
    m = _measured(tmp_path, [file], Training(workers=0, getitem_ms=12.0), facts)
    (finding,) = [each for each in diagnose(m).findings if each.rule == "serial-loader"]

    text = finding.fixes[0].text
    named = {"generator": "PyDataset", "arrays": "tf.data"}.get(reads, reads)
    others = {"PyDataset", "DataLoader", "tf.data"} - {named}
    assert said in text
    assert m.training.words.advise(Remedy.THREADS, threads=2) == all_words()[computes].advise(Remedy.THREADS, threads=2)
    assert [other for other in others if other in text] == []
    assert ("num_workers" in {each.name for each in finding.evidence}) == ("num_workers" in finding.title) == (reads == "DataLoader")


@pytest.mark.parametrize("computes", ["tensorflow", "jax", "torch"])
def test_what_keras_has_no_word_for_is_said_in_those_of_the_framework_that_computes(computes):
    words, beneath = all_words()["keras"].computed_by(all_words()[computes]), all_words()[computes]

    assert words.advise(Remedy.THREADS, threads=2) == beneath.advise(Remedy.THREADS, threads=2)
    assert words.advise(Remedy.RECORD_OPERATORS) == beneath.advise(Remedy.RECORD_OPERATORS)
    assert words.advise(Remedy.BFLOAT16) == "keras.mixed_precision.set_global_policy('mixed_bfloat16')"
    assert not words.has(Remedy.FUSED)


@pytest.mark.parametrize(
    ("ranges", "place"),
    [
        (["Data.train_dataloader", "Data.val_dataloader", "copy"], " in Data.train_dataloader()"),
        (["copy"], " in train_dataloader(), or where it is given to fit()"),
        (["Model.train_dataloader", "Data.train_dataloader"], " in train_dataloader(), or where it is given to fit()"),
    ],
    ids=["one hook was seen", "none was", "two were"],
)
def test_where_the_loader_is_made_is_said_by_the_class_that_was_seen_to_make_it(ranges, place):
    words = all_words()["lightning"].placed(ranges)

    assert words.write({Remedy.WORKERS: 2}) == f"DataLoader(..., num_workers=2){place}"
    assert words.places["torch.optim"] == " in configure_optimizers()"


def test_rules_write_no_call_that_the_words_of_a_framework_have():
    calls = {re.escape(name) for words in all_words().values() for name in re.findall(r"^\w+\(", _calls(words), re.MULTILINE)}
    rules = sorted(Path(slowstep.__path__[0], "diagnosis").rglob("*.py"))

    written = [f"{file.name}: {line.strip()}" for file in rules for line in _code(file) if re.search("|".join(calls), line)]

    assert written == []


def _calls(words: Words) -> str:
    return "\n".join(each.call for each in words.arguments.values() if isinstance(each, Argument))


def _code(file: Path) -> list[str]:
    """The lines of a module without its docstring."""
    text = file.read_text(encoding="utf-8")
    return text.split('"""', 2)[2].splitlines()


OTHER = Words(name="other", title="Other", loader="Reader", arguments={Remedy.WORKERS: "read_in(n)", Remedy.DEVICE: "on(device)"})


def test_changes_of_the_loader_are_written_in_the_words_of_whose_it_is():
    fed = OTHER.fed_by(plain())

    assert fed.write({Remedy.WORKERS: 2}) == "DataLoader(..., num_workers=2)"
    assert (fed.write({Remedy.DEVICE: True}), fed.loader_class, fed.name) == ("on(device)", "DataLoader", "other")
    assert not plain().fed_by(OTHER).has(Remedy.PREFETCH)


@pytest.mark.parametrize("words", RESTING.values(), ids=RESTING)
def test_words_that_rest_on_those_of_the_loaders_framework_stay_as_they_are(words):
    assert words.fed_by(plain()) is words
