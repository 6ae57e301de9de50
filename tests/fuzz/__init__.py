"""Damages traces and recordings in every way that their structure allows, and diagnoses each: a report or a refusal, nothing else.

    PYTHONPATH=tests python -m fuzz                        a hundred of each
    PYTHONPATH=tests python -m fuzz kineto --count 10000   more of one
    PYTHONPATH=tests python -m fuzz --seconds 3600         an hour (`make nightly`)
    PYTHONPATH=tests python -m fuzz --case 'kineto mi250_toy_step value@17'

A case is a line of text: what is damaged (its target and base), and the changes with their seeds. Whatever fails is printed as such a
line, with no more changes than it takes; `failed.txt` keeps those that once failed, and the tests replay them.
"""
