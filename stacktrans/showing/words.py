"""What happens at a step, in words: for those who listen, and below pictures."""

from collections.abc import Sequence

from stacktrans.inference.trace import Step
from stacktrans.showing.contents import order_of, symbol_text

NAMED = 3
"""How many rows of a memory are named, those that it is nearest to."""


def step_words(step: Step, count: int) -> str:
    """A step of `count` in sentences: what is read, answered and done, and what is held then."""
    sentences = [f"Step {step.step} of {count}", f"reads {symbol_text(step.input)}"]
    if step.output is not None:
        aside = "" if step.scored else ", which is not scored"
        sentences.append(
            f"answers {symbol_text(step.output)} with probability {step.probability:.2f}{aside}"
        )
    sentences += [
        f"read {end}: {_named([(part.symbol, part.weight) for part in parts]) or 'nothing'}"
        for end, parts in step.reads.items()
    ]
    if step.lines:
        sentences += [_action(step, name) for name in step.lines]
    else:
        signals = [f"{name} {strength:.2f}" for name, strength in step.signals.items()]
        sentences.insert(len(sentences) - len(step.reads), ", ".join(signals))
        sentences += [f"{name}: {_held(step, name)}" for name in step.contents]
    return ". ".join(each[0].upper() + each[1:] for each in sentences if each) + "."


def _action(step: Step, name: str) -> str:
    """The most probable action of a stack or list, and how many cells it then has."""
    own, cells = step.by_stack()[name], len(step.lines[name].filled)
    best = max(own, key=own.__getitem__)
    # The name of a signal ends with the number of its stack if there are several.
    action = best.removesuffix(f" {name.split()[-1]}")
    return f"{name}: {action} {own[best]:.2f}, {cells} {'cell' if cells == 1 else 'cells'}"


def _held(step: Step, name: str) -> str:
    """What a part of a memory holds, from the end where it is used."""
    held = step.contents[name]
    if not held:
        return "empty"
    from_top = order_of(step, name) == "bottom first"
    nearest = held[::-1] if from_top else held
    named = _named([(row.symbol, row.strength) for row in nearest[:NAMED]])
    more = f", and {len(held) - NAMED} more" if len(held) > NAMED else ""
    return f"from the {'top' if from_top else 'front'} {named}{more}"


def _named(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{symbol_text(symbol)} {share:.2f}" for symbol, share in shares)
