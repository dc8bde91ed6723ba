"""Machines: what hard models are, as rules over states, symbols and what is read."""
