"""Hugging Face's Trainer with a callback that makes a histogram of each parameter after every step."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    def forward(self, inputs, labels):
        logits = self.layers(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Samples(Dataset):
    def __init__(self):
        self.inputs, self.labels = torch.randn(2560, 256), torch.randint(0, 10, (2560,))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"inputs": self.inputs[index], "labels": self.labels[index]}


class WeightHistograms(TrainerCallback):
    def on_step_end(self, *arguments, model, **more):
        self.histograms = {name: np.histogram(weights.detach().numpy(), bins=64) for name, weights in model.named_parameters()}


torch.set_num_threads(1)
arguments = TrainingArguments(
    output_dir="checkpoints",
    num_train_epochs=3,
    per_device_train_batch_size=64,
    optim="sgd",
    use_cpu=True,
    save_strategy="no",
    logging_strategy="no",
    report_to="none",
    disable_tqdm=True,
)
Trainer(model=Classifier(), args=arguments, train_dataset=Samples(), callbacks=[WeightHistograms()]).train()
