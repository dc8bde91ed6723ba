"""What all other packages use: errors, registries, files, and text that is safe to show."""

__version__ = "0.1.0"
