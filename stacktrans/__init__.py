"""stacktrans: train, evaluate and look into stack-augmented transducers."""

__version__ = "0.1.0"
