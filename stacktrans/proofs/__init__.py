"""Proofs that a machine is right on all strings of its task."""
