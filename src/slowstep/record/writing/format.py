"""The recording: what a file of records looks like, for the one who writes and the one who reads.

A recording is a folder. Every recorded process owns two files in it, `<pid>-<start>.rec` and `<pid>-<start>.jsonl`:

* `.rec` holds fixed records of 48 bytes, no header. Files are reserved ahead, so a file ends in zero bytes; a record whose `kind` byte is
  zero was never finished (torn), because `kind` is the last byte written. Records of one thread are in the order in which they ended, but
  for what was held back to be written as a STEP, and for steps so short that several are written together (`fastpath.SHORT_NS`).
* `.jsonl` holds what has no fixed size, one JSON object a line: the process, texts, frames, stacks, iterators, hooks, health. Its lines
  `cost` (of the launcher: `exit`) count the records written so far: by that a file that was cut is told from a process that was killed.

The file `control` is one shared page through which the launcher and the recorded processes agree on when to stop.
All times are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import struct
from typing import Final

# Version 1: the first. Version 2: a STEP record stands for three others.
FORMAT_VERSION: Final = 2

# t0, t1 (ns), a, b, c (meaning by kind), thread (native id), flags, extra, kind - kind last, see above.
RECORD: Final = struct.Struct("<QQqqqIHBB")
RECORD_BYTES: Final = RECORD.size
assert RECORD_BYTES == 48
# A STEP: when its WAIT began and its UPDATE ended; then how long the WAIT was, how long after its begin the BACKWARD began, how long that
# was, and how long after the same the UPDATE began (all ns); then batch index, iterator, thread, samples, optimizer, kind.
STEP_RECORD: Final = struct.Struct("<QQIIIIIIIHBB")
assert STEP_RECORD.size == RECORD_BYTES
FIELDS: Final = ("t0", "t1", "a", "b", "c", "thread", "flags", "extra", "kind")

FIRST_RESERVE_BYTES: Final = 256 * 1024
LARGEST_RESERVE_BYTES: Final = 4 * 1024 * 1024
LIMIT_BYTES: Final = 256 * 1024 * 1024

# Kinds. Spans have t0 <= t1; readings and marks have t0 == t1. A new one takes the least number that none here has,
# of the launcher's readings from 32 on, of all others below; a byte holds 255. A kind that is given up keeps its line, as a comment: older
# recordings have its number, which is never given again. A reader passes over kinds that it does not know.
WAIT: Final = 1  # request for the next batch. a iterator, b batch index, c samples in it (-1 unknown), extra ready batches (255 unknown)
START: Final = 2  # a loader begins to be read. a iterator, b loader, c num_workers
UPDATE: Final = 3  # parameters are changed. a optimizer, b how often in this call (0 once), flags SKIPPED when it was left out
BACKWARD: Final = 4  # gradients are computed
# A checkpoint write. a bytes (-1 unknown), b text id of the function's name, c of the user's line that asked, extra 1 where one did.
SAVE: Final = 5
FETCH: Final = 6  # making one batch. a batch index, b samples (-1 unknown), c CPU ns of this thread, flags FAILED
FETCH_DELAY: Final = (
    7  # same t0, t1 as its FETCH. a CPU ns of other threads of the process, b run-queue delay ns, c iterator (-1 in workers)
)
FETCH_IO: Final = 8  # same t0, t1 as its FETCH. a bytes read by read calls, b bytes from storage, c read calls
COLLATE: Final = 9  # inside a FETCH. a CPU ns of this thread, b bytes of the batch made (-1 unknown)
IDLE: Final = 10  # a worker waiting to be told what to fetch
CPU: Final = 11  # mark: this thread's cumulative a CPU ns, b run-queue delay ns (from schedstat)
# mark: a stack of `thread`. a stack id, b weight ns (since the last one), c lateness ns of the sampler, flags BLOCKED, and of what the
# framework gives work to DEVICE_BUSY or DEVICE_IDLE
STACK: Final = 12
SPAN: Final = 13  # a named span. a text id of its name, b stage's index in slowstep.stages.STAGES
# A root module's forward. a samples (leading dimension of its first tensor, where that of its output is the same), b which module (an id),
# c bytes of its input; -1 unknown.
FORWARD: Final = 14
TOTALS: Final = 15  # thinned steps between t0 and t1. a steps, b samples (-1 unknown)
CLOCK: Final = 16  # mark: a CLOCK_REALTIME ns
SHUTDOWN: Final = 17  # the end of an iterator's workers, or of what it holds, wherever it is dropped. a iterator (NO_ITERATOR unknown)
# same thread as the BACKWARD it encloses, with several ranks: a CPU ns, b run-queue delay ns (-1 unknown), extra whether it shares its
# gradients: SYNCED, SYNCED_ANEW or UNSYNCED, where that is known
BACKWARD_CPU: Final = 20
SLOW_SAMPLE: Final = 23  # inside a FETCH: one sample that took many times the usual. a its index (-1 unknown), b usual ns, c batch index
ARM: Final = 24  # a step of an experiment. a block (-1 none), b samples (-1 unknown), c run-queue delay ns (-1 unknown), extra arm
LOSS: Final = (
    25  # mark: at an update. a the mean loss's float64 bits, b its backward passes (0 unknown), c a check sum of the input (-1 none)
)
COLLECTION: Final = 26  # of garbage. a generation, b objects let go, c text id of the line that asked for it, extra 1 where one did
STEP: Final = 27  # a WAIT, a BACKWARD and an UPDATE of one thread in one record of its own form, see STEP_RECORD
# What a framework only counts, between t0 and t1, on its own threads: how often WAIT (for input) or UPDATE (computing) was and how long.
# a how often, b ns in all, c iterator (NO_ITERATOR none), extra which of them. Of the batches of a WAIT that begins with it FETCH has
# in b the samples in all.
AGGREGATE: Final = 28
MODES: Final = 30  # mark: a which of record/timing/modes.py are on, b which were looked at
# mark: the graph of a backward pass, as it begins. a nodes (at least, where b and c are not known), b elements of the parameters that get a
# gradient, c elements of what the operations gave (both -1 unknown), flags nodes that were made in an earlier round of looks or before,
# extra 1 where that is known
GRAPH: Final = 31
# Kinds from 32 on are the launcher's readings.
READING_CPU: Final = 32  # a CPU ns of the process tree, b busy CPU ns of the machine, c stolen CPU ns; cumulative
READING_COST: Final = 33  # a CPU ns that the thread which reads monitors has used, cumulative
# Of readings `thread` is an index: of a process (its pid), disk, device or resource; 0 where there is one only. -1 is unknown or none.
READING_DELAY: Final = 34  # a run-queue delay ns of the threads watched, cumulative, b threads watched, c threads of the tree
READING_IO: Final = 35  # of the tree, cumulative: a bytes that read calls returned, b bytes from storage, c bytes to storage
READING_RSS: Final = 36  # index pid of the largest process. a resident bytes of the tree, b of them own (no file, not shared), c own of it
READING_FAULTS: Final = 37  # of the tree, cumulative: a minor page faults, b major ones
READING_TIMES: Final = 38  # of the machine, cumulative: a idle ns without b, b ns waiting for storage (iowait)
READING_PRESSURE: Final = 39  # index in PRESSURES. Cumulative: a ns in which some task waited, b ns in which all did (-1 unknown)
READING_THROTTLE: Final = 40  # of the control group, cumulative: a periods, b periods throttled, c ns throttled (of all cores added)
READING_QUOTA: Final = 41  # written when it changes. a thousandths of a core that the control group allows (-1 no limit)
# index pid, when it changes. a cores of its main thread and of those bound as tightly, b of that alone, c which a are: bits, 0 unknown
READING_AFFINITY: Final = 42
READING_GROUP_MEMORY: Final = 43  # of the control group. a bytes used, b limit (-1 none), c of them file pages that can be dropped
READING_MEMORY: Final = 44  # of the machine. a bytes in total, b bytes available
READING_SWAP: Final = 45  # of the machine. a free bytes of swap space, b bytes swapped in, c bytes swapped out (both cumulative)
READING_DISK: Final = 46  # index of the `disk` line. Cumulative: a bytes read, b bytes written, c ns busy
READING_NETWORK: Final = 47  # index 1 loopback, 0 all other interfaces. Cumulative: a bytes received, b bytes sent
# Accelerators: index of the `gpu` line.
READING_GPU_USE: Final = 48  # a percent of the time in which a kernel ran, b percent in which memory was accessed, c bytes used
READING_GPU_CLOCK: Final = 49  # a MHz of the multiprocessors, b MHz of the memory, c performance state (0 fastest, 15 slowest)
READING_GPU_LIMIT: Final = 50  # a bits: why clocks are lowered (nvmlClocksEventReasons), b mW used, c degrees Celsius
READING_GPU_LINK: Final = 51  # a generation of the PCIe link, b its lanes
READING_GPU_COPIED: Final = 52  # a bytes/s received over PCIe, b bytes/s sent; at times that differ: -1 is not read now
READING_GPU_TENANTS: Final = 53  # a processes of the tree on it, b other processes, c bytes that the others hold
PRESSURES: Final = ("cpu", "io", "memory")
NO_ITERATOR: Final = 0  # iterators are numbered from 1 on
# Iterators that are only asked for batches, by `slowstep.steps` or a hook; far from those of loaders. Their FETCH may be the wait for
# another thread's batch.
FIRST_OF_STEPS: Final = 1 << 32

END: Final = 1  # WAIT: the iterator was exhausted (StopIteration)
FAILED: Final = 2  # the call raised
SKIPPED: Final = 4  # UPDATE: left out, for gradients were inf or nan
PROFILED: Final = 16  # FETCH: its calls were timed (call_times.py), so it took longer than it would have
VALIDATION: Final = 8  # WAIT, START: marked by a framework or the user as not the training's
NO_GRADIENT: Final = 32  # FORWARD: gradients were off, or no backward pass goes through it
EVALUATING: Final = 128  # FORWARD: besides, the model was in its evaluation mode
BLOCKED: Final = 256  # STACK: the thread neither used a core nor waited for one just then; looked at now and then
DEVICE_BUSY: Final = 512  # STACK: the framework's device worked on what it was given, or was just being given it
DEVICE_IDLE: Final = 1024  # STACK: it had done all that it was given; without one of both nobody asked, or nothing told
SETTLING: Final = 64  # ARM: not to be counted, the training is still on its way from one arm to the next
READY_UNKNOWN: Final = 255
SYNC_UNKNOWN: Final = 0
SYNCED: Final = 1
UNSYNCED: Final = 2
# SYNCED, and no gradient was there before.
SYNCED_ANEW: Final = 3

# The control page: offset of each field. Single bytes and aligned 8-byte words only: both sides read without a lock.
CONTROL_FILE: Final = "control"
CONTROL_BYTES: Final = 4096
CONTROL_RECORDING: Final = 0  # u8: 1 while recording, 0 tells everybody to stop
CONTROL_REASON: Final = 1  # u8: why it stopped, below
CONTROL_PLAN: Final = 2  # u8: state of the experiment, below
# u8 each: 1 once a process of the command has told so, by the name of what it tells of.
CONTROL_BEGUN: Final = 5  # the first call that trains has begun, of a framework that records it when it ends
# By this name.
BEGUN: Final = "begun"
CONTROL_FLAGS: Final = {"python": 3, "old_python": 4, BEGUN: CONTROL_BEGUN}
CONTROL_UPDATES: Final = 8  # u64: updates of the busiest optimizer so far
CONTROL_FIRST_UPDATE: Final = 16  # u64: when the first update ended, ns
CONTROL_PID: Final = 24  # u64: the process that updates
CONTROL_FIRST_BACKWARD: Final = 32  # u64: when the first backward pass was over, ns
CONTROL_PLAN_NUMBER: Final = 40  # u64: how many plans were posted so far
CONTROL_FRAMEWORKS: Final = 48  # u8 each, up to CONTROL_VOTES: 1 once a process has imported that one (record/framework.control_flags)
CONTROL_VOTES: Final = 1024  # the rest of the page: what the ranks of a job agree on in an experiment (record/experiment/in_step.py)

# An experiment's plan is put into the recording's folder, posted by the launcher, and taken up and ended by the process that it is for;
# the other ranks of its job walk it as well.
PLAN_FILE: Final = "plan.json"
# Below the recording of an experiment's first start: those of later ones, by their number.
LATER_STARTS_FOLDER: Final = "later-starts"
# What was asked for and how it ended; its `until_ns` is where the recording for the diagnosis ends (CLOCK_MONOTONIC).
EXPERIMENT_FILE: Final = "experiment.json"
PLAN_NONE: Final = 0
PLAN_POSTED: Final = 1
PLAN_TAKEN: Final = 2
PLAN_DONE: Final = 3

STOPPED_BY_STEPS: Final = 1
STOPPED_BY_TIME: Final = 2
STOPPED_BY_END: Final = 3
STOPPED_BY_LAUNCHER: Final = 4

# What became of a lever in an arm: `state` of notes of kind "lever".
LEVER_READY: Final = "ready"
LEVER_ON: Final = "on"  # from its step on, for good
LEVER_EFFECT: Final = "effect"  # what it has changed so far, and what else it measured
LEVER_NOT_APPLICABLE: Final = "not applicable"
LEVER_FAILED: Final = "failed"
LEVER_SPOILT: Final = "spoilt"  # after its block no loss was finite any more
LEVER_NOT_UNDONE: Final = "not undone"  # it raised when it was to undo its change
# Those after which its arm is not switched on again.
LEVER_GIVEN_UP: Final = (LEVER_NOT_APPLICABLE, LEVER_FAILED)

# Why no calls are timed in the steps: notes of kind "untimed".
UNTIMED_COMPILED: Final = "compiled"
UNTIMED_THREADS: Final = "threads"

# What changed of an argument for which a function was traced again: notes of kind "retrace".
CHANGED_SHAPE: Final = "shape"
CHANGED_DTYPE: Final = "dtype"
CHANGED_VALUE: Final = "value"  # of Python, which is a part of the trace
CHANGED_OBJECT: Final = "object"  # another one
CHANGED_STRUCTURE: Final = "structure"  # a part of it came or went, or is no array any more
CHANGED_FUNCTION: Final = "function"  # it was made anew, of the same code

# Where a recording was begun from within (`started_in`): at no prompt and in no cell.
IN_SCRIPT: Final = "a script"

# How the launcher speaks to the processes that it starts.
ENV_RECORDING: Final = "SLOWSTEP_RECORDING"  # the folder, absolute
ENV_LEVEL: Final = "SLOWSTEP_LEVEL"  # 0, 1 or 2
ENV_STEPS: Final = "SLOWSTEP_STEPS"  # stop recording after so many updates
ENV_SECONDS: Final = "SLOWSTEP_SECONDS"  # stop recording so many seconds after the first update
ENV_CAPTURE: Final = "SLOWSTEP_CAPTURE"  # FIRST-LAST: profile these updates, counted from 1
ENV_EXPERIMENT: Final = "SLOWSTEP_EXPERIMENT"  # 1: this is a sandboxed training, and a plan may be posted for it
ENV_LEVERS: Final = "SLOWSTEP_LEVERS"  # levers that are on from the first step to the last: a JSON list of lever.Spec
ENV_LOADER: Final = "SLOWSTEP_LOADER"  # the place (record/experiment/building.py) of the loader that those levers change where it is built
ENV_SEEDS: Final = "SLOWSTEP_SEED_OFFSET"  # what is added to every seed that the script sets
ENV_LOSSES: Final = "SLOWSTEP_LOSSES"  # 1: the loss of every step is recorded
ENV_UNPROTECTED: Final = "SLOWSTEP_UNPROTECTED"  # 1: this experiment has no sandbox, or one that does not hold back all writes
ENV_DISABLE: Final = "SLOWSTEP_DISABLE"
