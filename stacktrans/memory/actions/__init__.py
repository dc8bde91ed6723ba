"""Memories whose cells are mixed by the probabilities of actions: stacks and lists."""
