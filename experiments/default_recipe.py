"""Train every condition of the default recipe with many seeds, and write down what came of it.

    python experiments/default_recipe.py [--only copy] [--seeds 10] [--workers 2]

The runs are in `results/default-recipe.jsonl`, the table in `results/default-recipe.md`.
"""

import argparse

from recording import STRINGS, Condition, Records

CONDITIONS = [
    Condition("copy", "queue"),
    Condition("copy", "deque"),
    Condition("reverse", "stack"),
    Condition("reverse", "deque"),
    Condition("bigram-flip", "queue"),
    Condition("svo-sov", "queue"),
    Condition("gender", "queue"),
]
HEADING = f"""# What the default recipe achieves

Written by `python experiments/default_recipe.py`. Trained on sources of 8 to 64; coarse
accuracy on {STRINGS} sources of 65 to 128. Seconds are of training, two runs
side by side."""


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="conditions whose name holds this")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    records = Records("default-recipe", CONDITIONS, HEADING)
    records.complete(options.seeds, options.workers, options.only)


if __name__ == "__main__":
    main()
