"""The tables of a training's input: what loaders were asked for, and how producers made their batches."""

from __future__ import annotations

import polars as pl

from slowstep.timeline.process_columns import BATCH, FAILED, ITERATOR, PROCESS, SPAN, TIME
from slowstep.timeline.table import Table, column

INPUT_TABLES: tuple[Table, ...] = (
    Table(
        name="iterators",
        row="One row per iterator that a loader made.",
        columns=(
            PROCESS,
            ITERATOR,
            column("loader", pl.Int64, "number of the loader in its process"),
            column("num_workers", pl.Int64, "worker processes of the loader, where it is known who makes its batches", nullable=True),
            column("prefetch_factor", pl.Int64, "batches asked for ahead per worker", nullable=True),
            column("batch_size", pl.Int64, "batch size the loader was given", nullable=True),
            column("workers", pl.List(pl.Int64), "process ids of its workers"),
            column("dataset", pl.String, "type name of the dataset", nullable=True),
            column("collate", pl.String, "qualified name of the collate function", nullable=True),
            column("collate_file", pl.String, "file of the collate function", nullable=True),
            column("collate_line", pl.Int64, "first line of the collate function", nullable=True),
            column("collate_is_default", pl.Boolean, "the framework's own collate function", nullable=True),
            column("persistent", pl.Boolean, "its workers outlive it", nullable=True),
            column("start_method", pl.String, "how its workers were started: fork, forkserver or spawn", nullable=True),
            column("dataset_length", pl.Int64, "samples in the dataset, where it knows", nullable=True),
            column("batches", pl.Int64, "batches of one pass, where its own sampler counts them", nullable=True),
            column("framework", pl.String, "name of the framework whose loader made it, where it was said", nullable=True),
            column("divides", pl.Boolean, "each worker gives a part of a stream, not all of it; null where unknown", nullable=True),
            column("draws", pl.Boolean, "that is unknown because the stream's code draws at random; null of no stream", nullable=True),
            column("marked", pl.Boolean, "a script named it by `slowstep.steps`; null where it was not said", nullable=True),
        ),
    ),
    Table(
        name="input_code",
        row="One row per class of what an iterator reads, and per function of the user's around the making of its loader.",
        columns=(
            PROCESS,
            ITERATOR,
            column("kind", pl.String, "data_set or sampler (a class), or maker (a function)"),
            column("file", pl.String, "its source file"),
            column("name", pl.String, "its qualified name"),
            column("first_line", pl.Int64, "line where the function begins; null of a class", nullable=True),
        ),
    ),
    Table(
        name="waits",
        row="One row per request for a next batch.",
        columns=(
            *SPAN,
            ITERATOR,
            BATCH,
            column("samples", pl.Int64, "samples in the batch (leading dimension)", nullable=True),
            column("ready", pl.Int64, "batches that were ready when it was asked for", nullable=True),
            column("exhausted", pl.Boolean, "the iterator had no more batches"),
            FAILED,
            column("validation", pl.Boolean, "marked as no training input"),
        ),
    ),
    Table(
        name="starts",
        row="One row per iterator made (worker start-up included).",
        columns=(
            *SPAN,
            ITERATOR,
            column("loader", pl.Int64, "number of the loader in its process"),
            column("num_workers", pl.Int64, "worker processes of the loader"),
        ),
    ),
    Table(
        name="fetches",
        row="One row per batch made by a producer.",
        columns=(
            *SPAN,
            column("iterator", pl.Int64, "number of the iterator where the producer knows it", nullable=True),
            BATCH,
            column("samples", pl.Int64, "samples asked for", nullable=True),
            column("cpu_ns", pl.Int64, "CPU time of the producing thread"),
            column("other_cpu_ns", pl.Int64, "CPU time of the process's other threads meanwhile", nullable=True),
            column("delay_ns", pl.Int64, "run-queue delay of the producing thread", nullable=True),
            column("read_bytes", pl.Int64, "bytes that read calls returned to the process", nullable=True),
            column("storage_bytes", pl.Int64, "bytes that came from storage", nullable=True),
            FAILED,
            column("profiled", pl.Boolean, "its calls were timed, so it took longer than it would have"),
            column("read_calls", pl.Int64, "read calls of the process meanwhile", nullable=True),
        ),
    ),
    Table(
        name="collates",
        row="One row per collate call (inside a fetch).",
        columns=(
            *SPAN,
            column("cpu_ns", pl.Int64, "CPU time of the thread"),
            column("bytes", pl.Int64, "size of the batch made", nullable=True),
        ),
    ),
    Table(name="idles", row="One row per stretch in which a worker had nothing to make.", columns=SPAN),
    Table(
        name="slow_samples",
        row="One row per sample that took at least eight times as long to make as a sample usually does.",
        columns=(
            *SPAN,
            column("index", pl.Int64, "what the data set was asked for", nullable=True),
            column("usual_ns", pl.Int64, "what a sample took in that process then"),
            BATCH,
        ),
    ),
    Table(
        name="batch_forms",
        row="One row per batch that was looked at.",
        columns=(
            PROCESS,
            column("tensors", pl.Int64, "tensors in it"),
            column("bytes", pl.Int64, "bytes of all of them"),
            column("spare_bytes", pl.Int64, "of these, what 8 bits per value would save where the values fit into them"),
            column("types", pl.String, "types of values, most bytes first"),
            column("array_bytes", pl.Int64, "of all bytes, those in NumPy's arrays; null in recordings of before", nullable=True),
        ),
    ),
    Table(
        name="padded_batches",
        row="One row per array of whole numbers in a batch that was looked at for padding, and one for a batch without any.",
        columns=(
            PROCESS,
            TIME,
            ITERATOR,
            BATCH,
            column("array", pl.Int64, "which of the batch's arrays; null where it has none of whole numbers", nullable=True),
            column("rows", pl.Int64, "sequences in it", nullable=True),
            column("length", pl.Int64, "places that each has", nullable=True),
            column("lengths", pl.List(pl.Int64), "places filled, of up to 512 sequences; null without a common end", nullable=True),
            column("value", pl.Int64, "what stands in the other places", nullable=True),
            column("at_end", pl.Boolean, "they are behind the filled ones, and not before them", nullable=True),
            column("inside", pl.Int64, "sequences that hold that value elsewhere too", nullable=True),
            column("values", pl.Int64, "different values besides it", nullable=True),
            column("mask", pl.Boolean, "another array of the batch tells which places are filled", nullable=True),
        ),
    ),
)
