"""A small BERT learns from a larger one, with a Trainer that has its own loss."""

import argparse
import json
import tempfile
import time

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.utils import logging

logging.set_verbosity_error()
LENGTH, BATCH = 40, 24


class Reviews(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 500, (n, LENGTH), generator=g)
        self.stars = (self.ids < 120).sum(1).sub(5).clamp(0, 4)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(LENGTH, dtype=torch.long), "labels": self.stars[i]}


def bert(width, layers):
    return BertForSequenceClassification(BertConfig(
        vocab_size=500, hidden_size=width, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=4 * width,
        max_position_embeddings=64, num_labels=5,
    ))


class Distiller(Trainer):
    def __init__(self, *args, teacher, temperature=2.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher.eval()  # no dropout: it is not trained
        self.temperature = temperature

    def ask_teacher(self, inputs):
        return self.teacher(**inputs).logits

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        t = self.temperature
        soft = F.softmax(self.ask_teacher(inputs) / t, dim=-1)
        kl = F.kl_div(F.log_softmax(outputs.logits / t, dim=-1), soft, reduction="batchmean") * t * t
        loss = 0.5 * kl + 0.5 * F.cross_entropy(outputs.logits, labels)
        return (loss, outputs) if return_outputs else loss


class NoGradDistiller(Distiller):
    @torch.no_grad()
    def ask_teacher(self, inputs):
        return super().ask_teacher(inputs)


class Clock(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 8:
            self.start = time.perf_counter()

    def on_train_end(self, args, state, control, **kwargs):
        self.seconds = time.perf_counter() - self.start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=130)
    parser.add_argument("--fixed", action="store_true", help="ask the teacher without a graph")
    cli = parser.parse_args()
    set_seed(11)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=cli.steps, per_device_train_batch_size=BATCH, learning_rate=2e-4, warmup_steps=20,
            lr_scheduler_type="cosine", save_strategy="no", logging_steps=50, report_to=[], disable_tqdm=True, use_cpu=True,
        )
        kind = NoGradDistiller if cli.fixed else Distiller
        trainer = kind(model=bert(96, 2), args=arguments, train_dataset=Reviews(4800, 0), callbacks=[clock], teacher=bert(160, 4))
        result = trainer.train()
    samples = (cli.steps - 8) * BATCH
    print(json.dumps({
        "steps": cli.steps, "loss": result.training_loss, "samples": samples, "seconds": clock.seconds, "samples_per_s": samples / clock.seconds,
    }))


if __name__ == "__main__":
    main()
