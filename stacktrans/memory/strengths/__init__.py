"""Stacks, queues and deques whose rows have strengths, in torch and compiled."""
