"""Workers that stay from epoch to epoch, not started again in each.

What it changes:
    A second loader, like the training's own but with persistent_workers=True, is started with it; while the lever is on the training gets
    that one's batches, and a change of epoch leaves its workers alive. With the lever off the loader's own are started again, as ever.
What it answers:
    What the starting of workers at each change of epoch costs. Only blocks with changes of epoch in them can show it (`epoch_changes`).
When it has no meaning:
    Without workers, where they are persistent already, where no change of epoch was seen before the experiment, where the script changes
    attributes of the data set between epochs (set_epoch), which workers that stay would not see, and where the loader cannot be built a
    second time (see workers).
How it is undone:
    As workers.
"""

from __future__ import annotations

from slowstep.record.experiment.lever import ORDER, Lever

LEVER = Lever(name="persistent-workers", changes=frozenset({ORDER}))
