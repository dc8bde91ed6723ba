"""From a network to a machine: what a hard model does, as a table of rules."""
