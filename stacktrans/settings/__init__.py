"""Settings of a run: types, files, recipes, and how a configuration is put together."""
