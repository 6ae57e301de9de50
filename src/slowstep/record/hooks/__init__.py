"""One file for each thing of a framework that is recorded. A file here defines `HOOK`; it is found by itself."""
