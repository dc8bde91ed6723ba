"""What all other packages use: errors, registries, files, and text that is safe to show."""
