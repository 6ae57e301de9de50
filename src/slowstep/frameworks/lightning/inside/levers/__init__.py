"""How trainings in a Trainer of Lightning's are changed: one file a lever, which `slowstep/levers` says the meaning of."""
