"""What the files of a run are called."""

CONFIG = "config.yaml"
"""The configuration of a run, and of a checkpoint."""
WEIGHTS = "model.safetensors"
"""The weights of a checkpoint."""
