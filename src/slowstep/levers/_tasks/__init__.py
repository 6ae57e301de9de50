"""Tasks: work done once on the training thread of a training that is thrown away, in place of its steps. One file with a `run` each."""
