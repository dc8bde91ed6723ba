"""What memories, controllers and files are called, for those who can't wait for torch."""

from enum import StrEnum

CONFIG = "config.yaml"
"""The configuration of a run, and of a checkpoint."""
WEIGHTS = "model.safetensors"
"""The weights of a checkpoint."""


class MemoryName(StrEnum):
    """The memories; their classes are in `stacktrans.memory`."""

    STACK = "stack"
    QUEUE = "queue"
    DEQUE = "deque"
    STACK_RNN = "stack-rnn"
    LIST_RNN = "list-rnn"
    NONE = "none"


class ControllerName(StrEnum):
    """The controllers; their classes are in `stacktrans.model.controllers`."""

    LSTM = "lstm"
    GRU = "gru"
    RNN = "rnn"
    SIGMOID = "sigmoid"
    LINEAR = "linear"
