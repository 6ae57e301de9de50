"""A torch of thirty lines: optimizers that call the real one's global hooks.

A training with it is recorded in earnest, and does not wait for the real one to be imported.
"""

from __future__ import annotations

from pathlib import Path

FILES = {
    "__init__.py": "from torch import optim\n__version__ = '0.0'\n"
    "def get_num_threads(): return 1\nget_num_interop_threads = get_num_threads\n"
    "class backends:\n    class cuda:\n        is_built = staticmethod(lambda: False)\n"
    "class distributed:\n    is_available = staticmethod(lambda: False)\n",
    "optim/__init__.py": "from torch.optim.optimizer import Optimizer\n",
    "optim/optimizer.py": """
before, after = {}, {}
class Handle:
    def __init__(self, hooks, hook):
        self.hooks = hooks
        hooks[self] = hook
    def remove(self):
        self.hooks.pop(self)
def register_optimizer_step_pre_hook(hook): return Handle(before, hook)
def register_optimizer_step_post_hook(hook): return Handle(after, hook)
class Optimizer:
    param_groups = ()
    def step(self):
        for hook in list(before.values()): hook(self, (), {})
        for hook in list(after.values()): hook(self, (), {})
""",
}

# Steps of about 5 ms, counted by the script itself with one write each, as those of `launching.TRAINING`.
TRAINING = """\
import os, sys, time
import torch

optimizer = torch.optim.Optimizer()
counter = os.open("steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def train(steps):
    for _ in range(steps):
        time.sleep(0.004)
        optimizer.step()
        os.write(counter, b"x")
"""


def write_small_torch(site: Path) -> Path:
    """Write it into a folder that Python imports from, which is given back."""
    for name, text in FILES.items():
        path = site / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return site
