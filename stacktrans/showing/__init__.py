"""Tables, progress and plots."""
