"""Training: data, attempts, stopping rules, rounding, and races of strategies."""
