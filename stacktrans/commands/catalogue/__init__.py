"""What there is to choose from: tasks, memories, settings and so on, with what each means.

Meanings are read where they stand: in docstrings, task files, recipes and checkpoints.
"""
