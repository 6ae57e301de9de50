"""The machine beside the training: what was used of its cores, memory and devices, and what recording cost."""
