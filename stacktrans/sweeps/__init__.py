"""Sweeps: many runs from one file, recorded, and laid beside published figures."""
