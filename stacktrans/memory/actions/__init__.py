"""Stacks and lists that are operated by probabilities of actions (joulin2015, section 3)."""

EMPTY = -1.0
"""The value of an empty cell."""
