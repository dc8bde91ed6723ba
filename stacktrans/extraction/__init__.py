"""Extraction of machines from hard models, by partition refinement."""
