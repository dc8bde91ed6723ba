"""Leave parts of the default recipe out, or add them where it has none, and see what changes.

    python experiments/what_matters.py [--only copy] [--seeds 3] [--workers 2]

The runs are in `results/what-matters.jsonl`, the table in `results/what-matters.md`.
"""

from recording import STRINGS, Condition, LongStrings

CURRICULUM = "curriculum={share: 0.2, growth: 2, loss: 0.1}"
CONDITIONS = [
    Condition("copy", "queue"),
    Condition("copy", "queue", ("curriculum=null",)),
    Condition("copy", "queue", ("sharpening=0",)),
    Condition("reverse", "stack"),
    Condition("reverse", "stack", (CURRICULUM,)),
    Condition("reverse", "stack", ("gate_bias.forget=0", "gate_bias.input=0")),
    Condition("svo-sov", "queue"),
    Condition("svo-sov", "queue", ("gate_noise=0",)),
]
TIME_LIMIT = "4m"
HEADING = f"""# What matters in the default recipe

Written by `python experiments/what_matters.py`. Each task by the recipe as it is, and with
one part of it changed, for at most {TIME_LIMIT} of training, two runs side by side. Coarse
accuracy on {STRINGS} sources of 65 to 128, of the weights that were best so far."""


if __name__ == "__main__":
    LongStrings("what-matters", CONDITIONS, HEADING, TIME_LIMIT).complete_as_asked(__doc__, seeds=3)
