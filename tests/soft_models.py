"""Trained models whose strengths are not quite 0 or 1, as those that are shipped once were."""

from pathlib import Path

SOFT = Path(__file__).parent / "data" / "models"
