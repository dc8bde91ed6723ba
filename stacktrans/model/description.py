"""Models in one line of text: the architecture of a network, or the size of a machine."""

from typing import TYPE_CHECKING

from stacktrans.common.registry import CONTROLLERS
from stacktrans.common.visible import counted
from stacktrans.memory import make_memory
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import RecurrentConfig

if TYPE_CHECKING:
    from stacktrans.automata.machine import Machine

ABBREVIATED = {"lstm", "gru", "rnn"}
"""The controllers whose names are abbreviations."""


def model_line(config: RunConfig) -> str:
    """Task, controller, memory and embeddings of a network, in one line."""
    model, shape = config.model, config.model.controller
    controller = f"{shape.name} controller"
    if isinstance(shape, RecurrentConfig):
        layers = f"{shape.layers} layers of " if shape.layers > 1 else ""
        controller = f"{layers}{controller_name(shape.name, shape.recurrent)} {shape.hidden_size}"
    elif own := model.encoder_decoder:
        layers = f", {own.layers} layers" if own.layers > 1 else ""
        controller = f"{own.name} {own.hidden_size}{layers}"
    memory_object = make_memory(model)
    memory = model.memory.name
    if memory_object.pushes:
        memory += f" of {model.memory_size}"
    if memory_object.count > 1:
        memory = f"{memory_object.count} × {memory}"
    embeddings = f"embeddings {model.embedding_size}"
    if model.embedding_size == "one-hot":
        embeddings = "one-hot inputs"
    buffers = ", buffers" if model.buffers else ""
    backwards = ", backwards" if model.backwards else ""
    return f"{config.task.name}: {controller}, memory {memory}, {embeddings}{buffers}{backwards}"


def controller_name(name: str, recurrent: bool) -> str:
    """What a controller is called, by its name in settings."""
    shown = name.upper() if name in ABBREVIATED else name
    if recurrent:
        return shown
    if name in CONTROLLERS and CONTROLLERS.load(name).keep_gate:  # which keeps a state all the same
        return f"{shown} without recurrent weights"
    return f"feed-forward {'tanh' if name == 'rnn' else name}"


def machine_line(machine: "Machine") -> str:
    """A machine in a line: its task, states, memories with their stack symbols, and rules."""
    memories = ", ".join(
        f"{name} of {counted(table.size - 1, 'symbol')}"
        for name, table in zip(machine.memories.names, machine.stack_symbols, strict=True)
        if table.size > 1
    )
    states = counted(machine.states.size, "state")
    with_memories = f", {memories}" if memories else ""
    rules = counted(len(machine.rules), "rule")
    backwards = ", backwards" if machine.layout.backwards else ""
    return f"{machine.task}: machine with {states}{with_memories}, {rules}{backwards}"
