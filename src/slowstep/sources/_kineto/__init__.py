"""Parts of the reader of Kineto traces."""
