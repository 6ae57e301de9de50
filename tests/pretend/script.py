"""Training with the framework for tests: `input_s` a batch, `callback_s` after each call of four updates of 5 ms: `uncounted`, `waits`."""

import sys
import time

import pretend

input_s, callback_s = map(float, sys.argv[1:3])


def batches():
    while True:
        if input_s:
            time.sleep(input_s)
        yield [0.0]


def draw(updates):
    time.sleep(callback_s)


pretend.is_asynchronous = "waits" not in sys.argv
trainer = pretend.Trainer(batches(), update_s=0.005, callbacks=(draw,), counts="uncounted" not in sys.argv)
for _ in range(120):
    trainer.run(4)
trainer.close()
