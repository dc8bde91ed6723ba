"""Settings of runs so small that many fit in a test."""

SETTINGS = (
    "task.parameters.symbols=3",
    "task.lengths.train=[1, 5]",
    "task.lengths.test=[6, 8]",
    "hidden_size=8",
    "memory.size=4",
    "embedding_size=4",
    "output_size=8",
    "loss_every=5",
    "measure.strings=20",
)
