"""One problem per file. A file here with a RULE is found by itself; its docstring is the rule's documentation."""
