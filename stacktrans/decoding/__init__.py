"""How whatever can be run answers: the protocol of models, the decoder and beam search."""
