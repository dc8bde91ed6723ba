"""How a transducer is trained."""
