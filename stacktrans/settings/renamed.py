"""What settings were called in formats 1 and 2 of configurations."""

RENAMED = {
    "model.layers": "model.controller.layers",
    "model.hidden_size": "model.controller.hidden_size",
    "model.recurrent": "model.controller.recurrent",
    "model.biases": "model.controller.biases",
    "model.initial_state": "model.controller.initial_state",
    "model.state_gradient": "model.controller.state_gradient",
    "model.memory_size": "model.memory.size",
    "model.memory_count": "model.memory.count",
    "model.read_depth": "model.memory.depth",
    "model.no_op": "model.memory.no_op",
    "model.capacity": "model.memory.capacity",
    "model.value_nonlinearity": "model.memory.values",
    "model.buffered": "model.buffers",
    "model.steps_per_symbol": "model.buffers.steps_per_symbol",
    "model.extra_steps": "model.buffers.extra_steps",
    "model.output_skip": "model.buffers.output_skip",
    "model.start.signal_scale": "model.start.scale.signals",
    "model.start.value_scale": "model.start.scale.values",
    "model.start.read_scale": "model.start.scale.reads",
    "model.other_starts": "training.restart.starts",
    "training.examples": "training.data.examples",
    "training.stream": "training.data.stream",
    "training.gradient_limit": "training.gradient_clip.value",
    "training.settle_loss": "training.settle.loss",
    "training.settle_rate": "training.settle.rate",
    "training.sharpening": "training.settle.sharpening",
    "training.restart_after": "training.restart.after",
    "training.restart_loss": "training.restart.loss",
    "training.give_up_after": "training.restart.give_up_after",
    "training.loss_every": "training.measure.loss_every",
    "training.accuracy_every": "training.measure.accuracy_every",
    "training.accuracy_loss": "training.measure.accuracy_loss",
    "training.validation_count": "training.measure.strings",
    "training.solved_accuracy": "training.stop.solved.accuracy",
    "training.solved_on": "training.stop.solved.ranges",
    "training.solved_times": "training.stop.solved.times",
    "training.patience": "training.stop.converged.patience",
}
"""Settings by their paths then, and what they are called now."""
GONE = {
    "training.smoothing": "it follows from the optimizer",
    "training.loss_over": "it follows from what is trained on",
    "training.buffer_penalty": "it is always 1",
    "training.rounding_rate": "it is part of rounding",
    "training.rounding_kept": "it is part of rounding",
    "training.prune": "it is part of rounding",
}
"""Settings by their paths then that no longer exist, and why."""


def hint(path: str) -> str | None:
    """What became of a setting whose path ends so; None if there was none."""
    for old, why in GONE.items():
        if f".{old}".endswith(f".{path}"):
            return f"{old} no longer exists: {why}"
    parts = path.split(".")
    for size in range(len(parts), 0, -1):
        head, within = ".".join(parts[:size]), "".join(f".{part}" for part in parts[size:])
        for old, new in RENAMED.items():
            if f".{old}".endswith(f".{head}"):
                return f"{path} is {new}{within} now"
    return None
