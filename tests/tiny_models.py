"""A model whose checkpoint is as small as can be."""

import torch

from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.layout import Layout


def tiny_config(**changes: int) -> RunConfig:
    return resolve(
        task="copy",
        settings={"model": {"memory": "stack"}},
        assignments=[
            "task.parameters.symbols=5",
            "hidden_size=6",
            "memory.size=4",
            "embedding_size=3",
            "output_size=4",
            *(f"{key}={value}" for key, value in changes.items()),
        ],
    )


def tiny_model(config: RunConfig, seed: int = 0) -> Transducer:
    layout = Layout.joint(5, 5)
    torch.manual_seed(seed)
    return Transducer(config.model, layout.inputs, layout.outputs)
