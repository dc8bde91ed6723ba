"""What is shown: tables, progress and pictures."""
