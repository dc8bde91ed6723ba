"""Stacks and lists operated by probabilities of actions, in torch and compiled (joulin2015)."""
