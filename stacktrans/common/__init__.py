"""Utilities of all packages: errors, registries, files, ragged arrays, processes and messages."""

__version__ = "0.1.0"
