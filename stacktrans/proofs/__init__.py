"""Proofs that a machine answers every string of its task rightly, however long."""
