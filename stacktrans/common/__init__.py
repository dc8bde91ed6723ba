"""What everything else stands on: errors, names, files, and text that can be seen."""
