"""Sweeps: many runs from one file, in parallel, and their results beside published figures."""
