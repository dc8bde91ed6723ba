"""Modules that all packages use: errors, registries, files, and text for terminals."""

__version__ = "0.1.0"
