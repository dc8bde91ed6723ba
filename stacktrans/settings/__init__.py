"""Settings of a run: types, files, recipes, and their merging into a configuration."""
