"""The Python API: models, runs and tasks, as exported by `stacktrans`."""
