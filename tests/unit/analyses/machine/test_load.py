"""Whose processor time is whose: the training's own must not pass for that of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slowstep.analyses.machine.load import Load, without_strangers

# A process tree that hardly computes, on a machine with a core that is busy.
IDLE_TREE = Load(tree_cores=0.02, foreign_cores=0.9, stolen_cores=0.0, cores=2.0)


def test_a_training_outside_of_the_process_tree_is_not_called_foreign():
    found = without_strangers(IDLE_TREE, trainer_cores=0.85)

    assert (found.tree_cores, found.foreign_cores, found.busy) == (None, None, False)


@pytest.mark.parametrize("trainer_cores", [None, 0.01, 0.05], ids=["unknown", "less than the tree", "about the tree"])
def test_others_are_busy_where_the_tree_holds_the_training(trainer_cores):
    assert without_strangers(IDLE_TREE, trainer_cores) == IDLE_TREE
    assert IDLE_TREE.busy


@pytest.mark.parametrize(("tree_cores", "full"), [(1.95, True), (1.5, False), (None, False)])
def test_cores_are_full_where_the_training_uses_all(tree_cores, full):
    assert replace(IDLE_TREE, tree_cores=tree_cores).is_full is full
