"""The columnar truth: what was recorded or traced, as declared tables, whatever it was read from."""
