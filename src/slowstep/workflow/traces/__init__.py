"""From the traces of a job's ranks to their reports."""
