"""What the tests of frameworks share."""

from __future__ import annotations

import os

# TensorFlow takes ten seconds and 700 MB of each process that imports it, and makes all its forks slow: these are run in processes of
# their own, by `test_with_tensorflow.py`.
WITH_TENSORFLOW = ("keras/test_fit.py", "tensorflow/test_pipelines.py", "tensorflow/test_results.py", "test_missing_names.py")
IN_OWN_PROCESS = "SLOWSTEP_TESTS_WITH_TENSORFLOW"

collect_ignore = [] if IN_OWN_PROCESS in os.environ else list(WITH_TENSORFLOW)
