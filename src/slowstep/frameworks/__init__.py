"""One folder for each framework, found by its name: `outside/` is what analyses and rules know of it, `outside/words.py` its words."""
