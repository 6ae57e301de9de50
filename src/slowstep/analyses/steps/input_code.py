"""The code that makes what a loader reads: methods of its data set and of its sampler, and the functions in which the loader is made."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowstep.timeline.timeline import Place, Timeline

# A class, by its file and its qualified name.
Class = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class InputCode:
    """Of the loaders that feed a training. Empty where it was not recorded."""

    data_sets: frozenset[Class] = frozenset()
    samplers: frozenset[Class] = frozenset()
    makers: frozenset[Place] = frozenset()

    def makes_input(self, function: Place, *, begins_pass: bool) -> bool:
        """Whether a function makes what the loader reads; `begins_pass`: it was called between two passes over the loader.

        A sampler may be told of results by which it draws in the middle of a pass. A data set that is asked then is not for the next pass.
        """
        file, name, _ = function
        of_class = (file, name.rpartition(".")[0])
        return of_class in self.samplers or (begins_pass and (of_class in self.data_sets or function in self.makers))


NONE_RECORDED = InputCode()


def find_input_code(timeline: Timeline, process: int, iterators: set[int]) -> InputCode:
    """That of some iterators of a process."""
    rows = timeline.table("input_code").filter(pl.col("process") == process, pl.col("iterator").is_in(list(iterators)))
    classes = {kind: frozenset(rows.filter(pl.col("kind") == kind).select("file", "name").iter_rows()) for kind in ("data_set", "sampler")}
    makers = rows.filter(pl.col("kind") == "maker").select("file", "name", "first_line").iter_rows()
    return InputCode(data_sets=classes["data_set"], samplers=classes["sampler"], makers=frozenset(makers))
