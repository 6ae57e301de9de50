"""How trainings by Keras' fit are changed: one file a lever, which `slowstep/levers` says the meaning of."""
