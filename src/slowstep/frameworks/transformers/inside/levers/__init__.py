"""How trainings in a Trainer of Hugging Face's are changed: one file a lever, which `slowstep/levers` says the meaning of."""
