"""Measurements of a profiler's trace: one file an analysis, one declared table each."""
