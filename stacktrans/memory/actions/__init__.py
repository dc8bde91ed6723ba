"""Stacks, lists and tapes operated by probabilities of actions, in torch and compiled."""
