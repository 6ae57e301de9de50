"""Fine-tune a small BERT-like classifier on short messages with the Hugging Face Trainer."""

import argparse
import json
import random
import tempfile
import time

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

MAX_LENGTH = 192
WORDS = [f"w{i}" for i in range(3000)]


def make_messages(count, seed):
    rng = random.Random(seed)
    messages, topics = [], []
    for _ in range(count):
        topic = rng.randrange(4)
        length = min(180, int(rng.lognormvariate(3.0, 0.5)))
        words = [WORDS[min(2999, int(rng.expovariate(0.004)) + topic * 20)] for _ in range(length)]
        messages.append(" ".join(words))
        topics.append(topic)
    return messages, topics


def build_tokenizer():
    vocab = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    core = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


class Messages(torch.utils.data.Dataset):
    def __init__(self, tokenizer, count, seed, padding):
        texts, self.labels = make_messages(count, seed)
        self.encodings = tokenizer(texts, truncation=True, padding=padding, max_length=MAX_LENGTH)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {
            "input_ids": self.encodings["input_ids"][i],
            "attention_mask": self.encodings["attention_mask"][i],
            "labels": self.labels[i],
        }


class Throughput(TrainerCallback):
    """Samples per second after the first steps."""

    def __init__(self, warmup=10):
        self.warmup, self.start, self.seconds, self.steps = warmup, 0.0, 0.0, 0

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.warmup:
            self.start = time.perf_counter()
        self.seconds = time.perf_counter() - self.start
        self.steps = state.global_step - self.warmup


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    tokenizer = build_tokenizer()
    train = Messages(tokenizer, 4000, seed=0, padding=False if args.fixed else "max_length")
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=256,
        num_labels=4,
    )
    throughput = Throughput()
    with tempfile.TemporaryDirectory() as folder:
        training_args = TrainingArguments(
            output_dir=folder,
            max_steps=args.steps,
            per_device_train_batch_size=args.batch_size,
            learning_rate=3e-4,
            logging_steps=40,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            seed=0,
        )
        torch.manual_seed(0)
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=training_args,
            train_dataset=train,
            data_collator=DataCollatorWithPadding(tokenizer),
            callbacks=[throughput],
        )
        trainer.train()
    samples = throughput.steps * args.batch_size
    result = {"steps": args.steps, "samples": samples, "seconds": throughput.seconds, "samples_per_s": samples / throughput.seconds}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
