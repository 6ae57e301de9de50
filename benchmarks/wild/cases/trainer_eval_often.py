"""Sentence classification with the Hugging Face Trainer, evaluated as it goes."""

import argparse
import json
import tempfile
import time

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.utils import logging

logging.set_verbosity_error()


class Sentences(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 200, (n, 32), generator=g)
        self.labels = (self.ids.sum(1) % 3).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(32, dtype=torch.long), "labels": self.labels[i]}


def compute_metrics(prediction):
    guess = np.argmax(prediction.predictions, axis=-1)
    return {"accuracy": float((guess == prediction.label_ids).mean())}


class Clock(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 10:
            self.start = time.perf_counter()

    def on_train_end(self, args, state, control, **kwargs):
        self.seconds = time.perf_counter() - self.start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--fixed", action="store_true")
    cli = parser.parse_args()
    set_seed(0)
    config = BertConfig(vocab_size=200, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=192, num_labels=3)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=cli.steps,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=16,
            eval_strategy="steps",
            eval_steps=400 if cli.fixed else 10,
            save_strategy="no",
            logging_steps=50,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=arguments,
            train_dataset=Sentences(4000, 0),
            eval_dataset=Sentences(320, 1),
            compute_metrics=compute_metrics,
            callbacks=[clock],
        )
        trainer.train()
    samples = (cli.steps - 10) * 16
    print(json.dumps({"steps": cli.steps, "samples": samples, "seconds": clock.seconds, "samples_per_s": samples / clock.seconds}))


if __name__ == "__main__":
    main()
