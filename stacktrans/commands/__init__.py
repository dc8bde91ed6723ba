"""The command line: its commands, options and terminal."""
