"""Parts of the reader of Nsight Systems exports."""
