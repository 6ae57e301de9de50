"""One folder for each framework, found by its name: `outside/` is what analyses and rules know of it, `outside/words.py` its words."""

import os

# Folders with more of them, for whoever tries one out: as tests do.
__path__ += [folder for folder in os.environ.get("SLOWSTEP_FRAMEWORKS", "").split(os.pathsep) if folder]
