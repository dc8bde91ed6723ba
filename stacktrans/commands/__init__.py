"""A module for each command, and their shared options, completion and terminal output."""
