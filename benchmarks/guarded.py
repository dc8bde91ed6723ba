"""The commands that guard.py runs, and the names of the fields that it compares.

When an option, a setting or a field is renamed, only this file of the guard is edited, by hand.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

RUNS = """
queue: --task copy --memory queue --max-steps 300
stack: --task reverse --memory stack --max-steps 300
deque: --task bigram-flip --memory deque --max-steps 200
LSTM: --task copy --memory none --max-steps 300
simple RNN: --task reverse --memory none --controller rnn --max-steps 300
two layers: --task gender --memory stack --set layers=2 LARGE --max-steps 100
paper: --task svo-sov --memory queue --controller gru --recipe paper SMALL --max-steps 50
stack-rnn: --task anbn --memory stack-rnn --max-steps 300
list-rnn: --task anbncn --memory list-rnn --max-steps 300
same length: --task reversal --memory stack --controller linear --max-steps 300
synchronous: --task parenthesis --memory stack --controller lstm FORGETFUL --max-steps 300
buffered, linear: --task reversal --memory stack --controller linear --buffered --max-steps 200
buffered, LSTM: --task xor --memory stack --controller lstm --buffered DOUBLE --max-steps 200
examples: --task formula --memory stack --controller lstm --recipe paper EXAMPLES
examples, buffered: --task delayed-xor --memory stack --buffered --recipe paper EXAMPLES
stream: --task anbn --memory stack-rnn --recipe paper STREAM
stream, list-rnn: --task anbncn --memory list-rnn --recipe paper STREAM
text: --text TEXT --memory stack-rnn --hidden 8 --set batch_size=2 PIECES
curriculum: --task copy --memory queue STRINGS LENGTHENING --max-steps 300
restarts: --task bigram-flip --memory deque STRINGS RESTARTING --max-steps 200
gives up: --task anbn --memory stack-rnn SMALL --set restart.give_up_after=80 --max-steps 300
settled: --task reverse --memory stack STRINGS --set settle.loss=1.2 --max-steps 300
rounded: --task anbn --memory stack-rnn SMALL ROUNDED SOLVED --max-steps 400
two processes: --task reverse --memory stack STRINGS RESTARTING --max-steps 200 --workers 2
two processes, stream: --task anbn --memory stack-rnn --recipe paper STREAM --workers 2
definition, stack: --task reverse --memory stack DEFINITION
definition, queue: --task copy --memory queue DEFINITION
definition, deque: --task bigram-flip --memory deque DEFINITION
definition, none: --task copy --memory none DEFINITION
definition, stack-rnn: --task anbn --memory stack-rnn DEFINITION
definition, list-rnn: --task anbncn --memory list-rnn DEFINITION
definition, buffered: --task reversal --memory stack --buffered DEFINITION
"""
"""Options of `train` by name of the run; they override those that `guard.py` adds."""
WORDS = {
    "LARGE": "--hidden 128 --memory-size 64 --set batch_size=30 --set learning_rate=0.004 "
    "--set 'gate_bias={input: 0, forget: 2, output: 0, update: 2}' --set measure.strings=1000 "
    "--set training.length_law=task --set restart=null --set solved.accuracy=0.997",
    "FORGETFUL": "--set state_gradient=0 --set 'gate_bias={input: 2, forget: -6, output: 2}' "
    "--set 'initialization.scale={signals: 3, values: 2, reads: 2}' "
    "--set 'settle={loss: 0.01, sharpening: 2}' --set 'restart={after: 1000, loss: 0.02}'",
    "DOUBLE": "--memory-size 6 --set buffers.steps_per_symbol=2",
    "STREAM": "SMALL PIECES ROUNDED",
    "PIECES": "--set 'data.stream={sequences: 40, epochs: 3, attempts: 2}'",
    "ROUNDED": "--set rounding=quick",
    "SOLVED": "--set solved.times=1 --set accuracy_every=20 --set restart=null",
    "EXAMPLES": "--set 'examples={train: 100, development: 40, test: 40, epochs: 10}'",
    "LENGTHENING": "--set 'curriculum={share: 0.2, growth: 2, loss: 1.2}'",
    "RESTARTING": "--set restart.after=60 --set restart.loss=0.0001",
    "DEFINITION": "SMALL --set kernel=torch --max-steps 40",
    "STRINGS": "SMALL --hidden 8 --memory-size 4 --set task.parameters.symbols=3",
    "SMALL": "LENGTHS --set measure.strings=20",
    "LENGTHS": "--set task.lengths.train=[1,5] --set task.lengths.test=[6,8]",
}
"""Abbreviations in `RUNS`, which are expanded one after another."""
SYMBOLS = "abcdefghijklmnopqrstuvwxyzABCDEF0123456789"
CHECKPOINTS: dict[str, tuple[str, Callable[[str], str]]] = {
    "addition": ("01", lambda word: f"{word[::2]}+{word[1::2]}="),
    "anbn": ("ab", lambda word: "a" * len(word) + "b"),
    "anbncn": ("ab", lambda word: "a" * len(word) + "b"),
    "copy-deque": (SYMBOLS, str),
    "copy-queue": (SYMBOLS, str),
    "memorization": ("12", lambda word: f"{word}="),
    "parenthesis-stack": ("()[]", lambda word: "(" * len(word) + ")" * len(word)),
    "reversal-stack": ("01", lambda word: word + "#" * len(word)),
    "reverse-stack": (SYMBOLS, str),
    "xor-buffered": ("01", str),
}
"""Symbols of the lines of each checkpoint, and a function from symbols to a line of its task."""
SWEEPS = {
    "default-recipe": "default-recipe.yaml",
    "grefenstette2015-small": "grefenstette2015.yaml --profile small",
    # The other runs of this profile were not made.
    "grefenstette2015-wide": "grefenstette2015.yaml --profile wide --only=-LSTM",
    "hao2018": "hao2018.yaml",
    "hao2018-default": "hao2018-default.yaml",
    "hao2018-default-agreement": "hao2018-default-agreement.yaml",
    "hao2018-default-formula": "hao2018-default-formula.yaml",
    "hao2018-default-parenthesis": "hao2018-default-parenthesis.yaml",
    "joulin2015-small": "joulin2015.yaml --profile small",
}
"""The guarded sweeps: the arguments of `sweep` by directory in experiments/results."""
ANSWER = "output ended scored"
PROBABILITIES = "output probability likely"
TRACE = "input signals pushed reads held tops"
BUFFERS = "input_read input_left written output_held"
SCORES = "lengths count coarse fine symbols"
IGNORED = "seconds command version torch rule decided_by reported_on"
"""Fields of metrics, summaries and tables that are not compared: times, origins, and sentences."""


def lines(checkpoint: str, count: int) -> list[str]:
    """Lines of 0 to 40 symbols, alternately arbitrary and of the checkpoint's task."""
    symbols, task_line = CHECKPOINTS[checkpoint]
    words = ["".join(_sample(symbols, index * 40 // (count - 1), index)) for index in range(count)]
    return [task_line(word[::2]) if index % 2 else word for index, word in enumerate(words)]


def write_text(folder: Path) -> None:
    """Write a small text in three files."""
    for seed, (part, count) in enumerate({"train": 30, "valid": 12, "test": 12}.items()):
        nouns = _sample(["owl", "boat", "lamp", "sea", "night"], 2 * count, seed)
        pairs = zip(nouns[::2], nouns[1::2], strict=True)
        sentences = "".join(f"the {first} sees the {second}\n" for first, second in pairs)
        (folder / f"{part}.txt").write_text(sentences)


def _sample(symbols: Sequence[str], count: int, seed: int) -> list[str]:
    draw = random.Random(seed).random  # whose sequence Python guarantees
    return [symbols[int(len(symbols) * draw())] for _ in range(count)]
