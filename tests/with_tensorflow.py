"""Tests that import TensorFlow: ten seconds and 700 MB of each process that does, in which all forks are slow from then on. They are run in
processes of their own, by `unit/frameworks/test_with_tensorflow.py`.
"""

from __future__ import annotations

from typing import Final

# Below `unit/frameworks`, those of a folder one after the other.
FILES: Final = (
    *("keras/test_cached_pipeline.py", "keras/test_calls_left_out.py", "keras/test_fit.py", "keras/test_rebuilt_pipeline.py"),
    "keras/test_run_eagerly.py",
    *("keras/test_jit_compile.py", "keras/test_joined_batches.py", "keras/test_mixed_precision.py", "keras/test_steps_per_execution.py"),
    *("keras/test_divided_batches.py", "keras/test_losses.py", "keras/test_own_errors.py", "keras/test_stored_pipeline.py"),
    *("tensorflow/test_bench_data.py", "tensorflow/test_operations.py", "tensorflow/test_pipelines.py", "tensorflow/test_results.py"),
    *("tensorflow/test_interleaved.py", "tensorflow/test_replicas.py", "tensorflow/test_retraced.py", "tensorflow/test_saves.py"),
    *("tensorflow/test_same_part.py", "tensorflow/test_seeding.py", "tensorflow/test_stored.py"),
    "test_missing_names.py",
)
