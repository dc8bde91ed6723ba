"""The transducer: embeddings, controllers, backends and checkpoints."""
