"""Memories whose cells are mixed by the probabilities of actions: stacks and lists."""

EMPTY = -1.0
"""What an empty cell holds (joulin2015, section 3.1)."""
