"""Train every condition of the default recipe with many seeds, and write down what came of it.

    python experiments/default_recipe.py [--only copy] [--seeds 10] [--workers 2]

The runs are in `results/default-recipe.jsonl`, the table in `results/default-recipe.md`.
"""

from recording import STRINGS, Condition, LongStrings

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


if __name__ == "__main__":
    LongStrings("default-recipe", CONDITIONS, HEADING).complete_as_asked(__doc__, seeds=10)
