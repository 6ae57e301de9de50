"""What hooks of a loader are made of: how it, its iterators and its batches are described, and samples timed."""
