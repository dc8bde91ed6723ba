"""Input and output buffers: neural queues that let a controller wait (hao2018, section 3.2).

The input buffer starts with the whole input, each symbol with strength 1. It is popped at
each step with the strength i_{t-1} that the controller gave at the step before (i_0 is
0), and then read with strength 1. What the controller says is written to the output
buffer with strength o_t; after the last step, the n-th symbol of the answer is what is
read with strength 1 after n - 1 has been popped.

Both keep P[i], the sum of the strengths from the front up to row i: a pop is then
max(0, P - u), and a read of strength 1 takes min(1, P[i]) - min(1, P[i-1]) of row i.
"""

import torch
from torch import Tensor


def filled(lengths: Tensor, longest: int) -> Tensor:
    """The input buffer before the first step.

    Args:
        lengths: [B] symbols of each input.
        longest: T.

    Returns:
        [B, T] for each row, the sum of the strengths up to it.
    """
    rows = torch.arange(1, longest + 1, device=lengths.device)
    return torch.minimum(rows, lengths.unsqueeze(1))


def popped(cumulative: Tensor, amount: Tensor) -> Tensor:
    """The buffer after a pop: cumulative strengths [B, T], amounts [B]."""
    return torch.relu(cumulative - amount.unsqueeze(1))


def read_weights(cumulative: Tensor) -> Tensor:
    """How much of each row is read with strength 1: [..., T]."""
    taken = cumulative.clamp(max=1)
    return torch.diff(taken, dim=-1, prepend=torch.zeros_like(taken[..., :1]))


def written_weights(cumulative: Tensor, first: int, count: int) -> Tensor:
    """What some symbols of the answer are made of.

    Args:
        cumulative: [B, steps] the sum of the strengths written up to each step.
        first: the first of the symbols, from 0.
        count: n symbols.

    Returns:
        [B, n, steps] how much of what was written at each step each symbol is made of.
    """
    before = torch.arange(first, first + count, device=cumulative.device, dtype=cumulative.dtype)
    return read_weights(torch.relu(cumulative.unsqueeze(1) - before.unsqueeze(1)))


def writing_steps(cumulative: Tensor, first: int, count: int) -> slice:
    """Steps that all have a part in some symbols of the answer, and the one before them.

    Args:
        cumulative: [B, steps] as for `written_weights`.
        first: the first of the symbols, from 0.
        count: n symbols.
    """
    done = (cumulative <= first).sum(dim=1).min()
    begun = (cumulative < first + count).sum(dim=1).max()
    return slice(max(int(done) - 1, 0), int(begun) + 1)


def buffer_penalty(strengths: Tensor) -> Tensor:
    """The mean of 1 / (1 + (3.25 s - 1.625)^12): .003 where all are 0 or 1; 0 for none."""
    return (1 / (1 + (3.25 * strengths - 1.625) ** 12)).sum() / max(strengths.numel(), 1)
