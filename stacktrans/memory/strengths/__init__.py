"""Memories that keep a strength for each row: stack, queue and deque."""
