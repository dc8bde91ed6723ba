"""Settings of a run: their types, the files they are in, and how they are put together."""
