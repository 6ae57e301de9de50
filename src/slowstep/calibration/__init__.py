"""Values that were measured on a machine and stand for others, by what they are of, each with unit, machine, and what measured it."""
