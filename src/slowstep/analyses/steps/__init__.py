"""Who trains, in which process and on which thread, and where each step begins and ends: of recordings and of traces."""
