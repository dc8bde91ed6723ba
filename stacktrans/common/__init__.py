"""Utilities of all packages: errors, registries, files, ragged arrays, and escaping of text."""

__version__ = "0.1.0"
