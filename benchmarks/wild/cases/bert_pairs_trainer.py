"""Sentence pairs with the Hugging Face Trainer and its defaults, logging every 10 steps."""

import argparse
import json
import tempfile
import time

import numpy as np
import torch
from datasets import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.utils import logging

logging.set_verbosity_error()


class Clock(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 8:
            self.start = time.perf_counter()

    def on_train_end(self, args, state, control, **kwargs):
        self.seconds = time.perf_counter() - self.start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    cli = parser.parse_args()
    set_seed(0)
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 500, (2000, 64))
    data = Dataset.from_dict({"input_ids": ids.tolist(), "labels": (ids.sum(1) % 2).tolist()})
    config = BertConfig(vocab_size=500, hidden_size=192, num_hidden_layers=3, num_attention_heads=6, intermediate_size=768, num_labels=2)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=cli.steps,
            per_device_train_batch_size=16,
            learning_rate=3e-4,
            warmup_steps=10,
            logging_steps=10,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=data.with_format("torch"), callbacks=[clock]).train()
    samples = (cli.steps - 8) * 16
    print(json.dumps({"steps": cli.steps, "samples": samples, "seconds": clock.seconds, "samples_per_s": samples / clock.seconds}))


if __name__ == "__main__":
    main()
