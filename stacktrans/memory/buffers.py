"""Soft input and output buffers in torch: read and write weights, and a penalty on partial ones.

The buffers are queues from which a controller reads and writes (hao2018, section 3.2). The input
buffer contains the whole input, each symbol with strength 1. Each step pops it with the
strength i_{t-1} that the controller gave at the step before (i_0 is 0), then reads it with strength
1, and writes its output to the output buffer with strength o_t. The n-th symbol of the answer is
read from the output buffer with strength 1, after pops with a total strength of n - 1.

A buffer is represented by P[i], the cumulative strength from the front through row i: a pop is
max(0, P - u), and the weight of row i in a read of strength 1 is min(1, P[i]) - min(1, P[i-1]).
"""

import torch
from torch import Tensor


def filled(lengths: Tensor, longest: int) -> Tensor:
    """The input buffer before the first step.

    Args:
        lengths: [B] the number of symbols of each input.
        longest: T.

    Returns:
        [B, T] cumulative strengths.
    """
    rows = torch.arange(1, longest + 1, device=lengths.device)
    return torch.minimum(rows, lengths.unsqueeze(1))


def popped(cumulative: Tensor, amount: Tensor) -> Tensor:
    """Cumulative strengths [B, T] after a pop with strengths [B]."""
    return torch.relu(cumulative - amount.unsqueeze(1))


def read_weights(cumulative: Tensor) -> Tensor:
    """The weights of rows in a read of strength 1, by cumulative strengths [..., T]."""
    taken = cumulative.clamp(max=1)
    return torch.diff(taken, dim=-1, prepend=torch.zeros_like(taken[..., :1]))


def written_weights(cumulative: Tensor, first: int, count: int) -> Tensor:
    """The weights of all steps in some symbols of the answer.

    Args:
        cumulative: [B, steps] cumulative strengths written.
        first: the first of the symbols, from 0.
        count: n symbols.

    Returns:
        [B, n, steps].
    """
    before = torch.arange(first, first + count, device=cumulative.device, dtype=cumulative.dtype)
    return read_weights(torch.relu(cumulative.unsqueeze(1) - before.unsqueeze(1)))


def writing_steps(cumulative: Tensor, first: int, count: int) -> slice:
    """All steps with weights in some symbols of the answer, and the step before them.

    Args:
        cumulative: [B, steps] cumulative strengths written.
        first: the first of the symbols, from 0.
        count: n symbols.
    """
    before = (cumulative <= first).sum(dim=1).min()
    last = (cumulative < first + count).sum(dim=1).max()
    return slice(max(int(before) - 1, 0), int(last) + 1)


def buffer_penalty(strengths: Tensor) -> Tensor:
    """The mean of 1 / (1 + (3.25 s - 1.625)^12): .003 if all are 0 or 1, and 0 for no strengths."""
    return (1 / (1 + (3.25 * strengths - 1.625) ** 12)).sum() / max(strengths.numel(), 1)
