"""Tasks: work done once on the training thread of a sandboxed training, in place of its steps. One file with a `TASK` each."""
