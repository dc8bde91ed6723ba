"""The transducer: embeddings, controllers, what runs it, and its checkpoints."""
