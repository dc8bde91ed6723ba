"""A model in a line."""

from stacktrans.memory import make_memory
from stacktrans.settings.config import RunConfig


def model_line(config: RunConfig) -> str:
    """The shape of a model in a line."""
    model = config.model
    layers = f"{model.layers} layers of " if model.layers > 1 else ""
    controller = f"{layers}{model.controller.upper()} {model.hidden_size}"
    if not model.has_units:
        controller = f"{model.controller} controller"
    made = make_memory(model)
    memory = f"{model.memory} of {model.memory_size}" if made.pushes else model.memory
    if made.count > 1:
        memory = f"{made.count} {memory}"
    embeddings = f"embeddings {model.embedding_size}"
    if model.embedding_size == "one-hot":
        embeddings = "one-hot inputs"
    buffers = ", buffers" if model.buffered else ""
    return f"{config.task.name}: {controller}, memory {memory}, {embeddings}{buffers}"
