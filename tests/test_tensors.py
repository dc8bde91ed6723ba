"""Memory for compiled code: what is not used any more is used again, and never hoarded."""

import tracemalloc
from collections.abc import Iterator

import pytest
import torch

from stacktrans.kernels.arrays import MOST_SPARE_BYTES
from stacktrans.kernels.sequences import fresh


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_what_is_kept_for_later_is_bounded() -> None:
    # As in an evaluation, where no two batches are of one size.
    for number in range(2000):
        fresh(2**18 + 4001 * number, dtype=torch.float32)
    held, most = tracemalloc.get_traced_memory()
    assert held <= 1.1 * MOST_SPARE_BYTES
    assert most <= 1.5 * MOST_SPARE_BYTES


def test_memory_of_a_size_nearby_is_used_again() -> None:
    place = fresh(1000, 1000, dtype=torch.float32).data_ptr()
    assert fresh(999, 1000, dtype=torch.float32).data_ptr() == place
    assert fresh(500, 1000, dtype=torch.float64).data_ptr() == place


def test_memory_in_use_is_nobody_elses() -> None:
    first = fresh(1000, 1000, dtype=torch.float32).fill_(1)
    part = first[5:]
    del first
    second = fresh(1000, 1000, dtype=torch.float32).fill_(2)
    assert part.eq(1).all()
    assert second.eq(2).all()
    assert fresh(3, 200_000, dtype=torch.float64).shape == (3, 200_000)
