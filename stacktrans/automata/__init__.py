"""Machines: deterministic automata with memories, given by rules."""
