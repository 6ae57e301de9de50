"""What the tests of frameworks share."""

from __future__ import annotations

import os

from with_tensorflow import FILES, IN_OWN_PROCESS

collect_ignore = [] if IN_OWN_PROCESS in os.environ else list(FILES)
