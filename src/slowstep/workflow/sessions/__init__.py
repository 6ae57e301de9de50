"""Recording from within: notebooks, prompts and scripts in mid-run."""
