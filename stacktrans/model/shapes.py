"""The shapes of a model's weights, as far as they are known without torch."""

from stacktrans.common.registry import CONTROLLERS
from stacktrans.memory import make_memory
from stacktrans.model.units import Units
from stacktrans.settings.model_config import ModelConfig

Shapes = dict[str, tuple[int, ...]]


def weight_shapes(config: ModelConfig, inputs: int, outputs: int) -> Shapes:
    """The shapes of the weights of a transducer, by their names; of a controller of this package.

    Args:
        config: the shape of the model.
        inputs: number of input ids.
        outputs: number of output ids.
    """
    memory = make_memory(config)
    units: type[Units] = CONTROLLERS.load(config.controller.name)
    one_hot = config.embedding_size == "one-hot"
    embedded = inputs if one_hot else int(config.embedding_size)
    read = memory.reads * config.memory_size
    size = units.size_in(config, embedded, read)
    shown = config.output_size if memory.reads else None
    biases = config.controller.biases
    found: Shapes = {} if one_hot else {"embedding.weight": (inputs, embedded)}
    signals = len(memory.signal_names) + (2 if config.buffers else 0)
    if signals:
        found |= _linear("operation.signals", size, signals, biases)
        if pushed := memory.pushes * config.memory_size:
            found |= _linear("operation.values", size, pushed, biases)
    if units.units:
        for number in range(config.units.layers):
            found |= _layer(config, units, number, embedded, size if number else read)
    if shown:
        found |= _linear("output.0", size, shown, biases)
    return found | _linear("classifier", shown or size, outputs, biases)


def _linear(name: str, inputs: int, outputs: int, bias: bool) -> Shapes:
    weight: Shapes = {f"{name}.weight": (outputs, inputs)}
    return weight | ({f"{name}.bias": (outputs,)} if bias else {})


def _layer(
    config: ModelConfig, units: type[Units], number: int, embedded: int, below: int
) -> Shapes:
    size = config.units.hidden_size
    rows = len(units.gates) * size
    found: Shapes = {
        "input_weight": (rows, embedded),
        "below_weight": (rows, below),
        "initial_state": (units.states, size),
    }
    if config.units.recurrent:
        found["hidden_weight"] = (rows, size)
    if config.units.biases:
        found["bias"] = (rows,)
    return {f"controller.layers.{number}.{name}": shape for name, shape in found.items()}
