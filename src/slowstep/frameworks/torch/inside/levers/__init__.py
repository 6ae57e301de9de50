"""How torch's trainings are changed: one file a lever, which `slowstep/levers` says the meaning of."""
