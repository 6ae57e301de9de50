"""Train a small network with the Hugging Face Trainer on data made here; `--variant slow-callback` plants a slow callback."""

import argparse
import json

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import EvalPrediction, Trainer, TrainerCallback, TrainingArguments

FEATURES = 256
CLASSES = 10
WIDTH = 1024


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(FEATURES, WIDTH), nn.ReLU()),
            *(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
            *(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
            nn.Linear(WIDTH, CLASSES),
        )

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.layers(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Samples(Dataset):
    def __init__(self, samples: int) -> None:
        self.inputs = torch.randn(samples, FEATURES)
        self.labels = (self.inputs @ torch.randn(FEATURES, CLASSES)).argmax(dim=1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"inputs": self.inputs[index], "labels": self.labels[index]}


class WeightHistograms(TrainerCallback):
    """How the weights of each parameter are distributed, after every step."""

    def __init__(self) -> None:
        self.histograms: dict[str, list[int]] = {}

    def on_step_end(self, *arguments: object, model: nn.Module, **more: object) -> None:
        for name, parameter in model.named_parameters():
            counts, _ = np.histogram(parameter.detach().flatten()[::2].numpy(), bins=64)
            self.histograms[name] = counts.tolist()


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(axis=1) == prediction.label_ids).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=["healthy", "slow-callback"], default="healthy")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batches", type=int, default=50, help="per epoch")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    trainer = Trainer(
        model=Classifier(),
        args=TrainingArguments(
            output_dir="checkpoints",
            num_train_epochs=arguments.epochs,
            per_device_train_batch_size=arguments.batch_size,
            per_device_eval_batch_size=arguments.batch_size,
            optim="sgd",
            learning_rate=0.05,
            use_cpu=True,
            eval_strategy="epoch",
            save_strategy="no",
            logging_steps=10,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Samples(arguments.batches * arguments.batch_size),
        eval_dataset=Samples(4 * arguments.batch_size),
        compute_metrics=accuracy,
        callbacks=[WeightHistograms()] if arguments.variant == "slow-callback" else [],
    )
    result = trainer.train()
    print(json.dumps({"steps": trainer.state.global_step, "samples_per_s": result.metrics["train_samples_per_second"]}))


if __name__ == "__main__":
    main()
