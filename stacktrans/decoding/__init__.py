"""Decoding: the protocol of models, greedy decoding and beam search."""
