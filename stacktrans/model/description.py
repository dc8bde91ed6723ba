"""A model's task, controller, memory and embeddings in one line of text."""

from stacktrans.memory import make_memory
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import RecurrentConfig


def model_line(config: RunConfig) -> str:
    """Task, controller, memory and embeddings of a model, in one line."""
    model, shape = config.model, config.model.controller
    controller = f"{shape.name} controller"
    if isinstance(shape, RecurrentConfig):
        layers = f"{shape.layers} layers of " if shape.layers > 1 else ""
        controller = f"{layers}{shape.name.upper()} {shape.hidden_size}"
        if not shape.recurrent:
            controller += " without recurrence"
    elif own := model.encoder_decoder:
        layers = f", {own.layers} layers" if own.layers > 1 else ""
        controller = f"{own.name} {own.hidden_size}{layers}"
    memory_object = make_memory(model)
    memory = model.memory.name
    if memory_object.pushes:
        memory += f" of {model.memory_size}"
    if memory_object.count > 1:
        memory = f"{memory_object.count} {memory}"
    embeddings = f"embeddings {model.embedding_size}"
    if model.embedding_size == "one-hot":
        embeddings = "one-hot inputs"
    buffers = ", buffers" if model.buffers else ""
    backwards = ", backwards" if model.backwards else ""
    return f"{config.task.name}: {controller}, memory {memory}, {embeddings}{buffers}{backwards}"
