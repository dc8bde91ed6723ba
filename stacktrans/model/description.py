"""A model in a line."""

from stacktrans.settings.config import RunConfig


def model_line(config: RunConfig) -> str:
    """The shape of a model in a line."""
    model = config.model
    layers = f"{model.layers} layers of " if model.layers > 1 else ""
    controller = f"{layers}{model.controller.upper()} {model.hidden_size}"
    if model.controller == "linear":
        controller = "linear controller"
    memory = model.memory if model.memory == "none" else f"{model.memory} of {model.memory_size}"
    if model.memory_count > 1:
        memory = f"{model.memory_count} {memory}"
    embeddings = f"embeddings {model.embedding_size}"
    if model.embedding_size == "one-hot":
        embeddings = "one-hot inputs"
    buffers = ", buffers" if model.buffered else ""
    return f"{config.task.name}: {controller}, memory {memory}, {embeddings}{buffers}"
