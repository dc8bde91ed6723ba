"""Stacks and lists operated by probabilities of actions, in torch and compiled (joulin2015)."""

EMPTY = -1.0
"""The value of an empty cell."""
