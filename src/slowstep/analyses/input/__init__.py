"""What makes the input slow: the sampler, samples, restarts, threads, and validations' input."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset(
    {
        "batch_forms",
        "builtins",
        "call_edges",
        "calls",
        "collates",
        "device_events",
        "fetches",
        "graph_shapes",
        "iterators",
        "network",
        "padded_batches",
        "pipeline_functions",
        "pipeline_nodes",
        "pipeline_stages",
        "pipelines",
        "slow_samples",
        "stored_reads",
    }
)
