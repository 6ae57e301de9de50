"""The recording: its format, the files that it is written into, and the page through which launcher and recorded processes agree."""
