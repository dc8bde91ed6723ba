"""Memory for compiled code: what is not used any more is used again, and never hoarded."""

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from kernel_cases import fresh_tensor

from stacktrans.kernels.arrays import MOST_SPARE_BYTES


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_what_is_kept_for_later_is_bounded() -> None:
    # As in an evaluation, where no two batches are of one size.
    for number in range(2000):
        fresh_tensor(2**18 + 4001 * number)
    held, most = tracemalloc.get_traced_memory()
    assert held <= 1.1 * MOST_SPARE_BYTES
    assert most <= 1.5 * MOST_SPARE_BYTES


def test_memory_of_a_size_nearby_is_used_again() -> None:
    place = fresh_tensor(1000, 1000).data_ptr()
    assert fresh_tensor(999, 1000).data_ptr() == place
    assert fresh_tensor(500, 1000, dtype=np.float64).data_ptr() == place


def test_memory_in_use_is_nobody_elses() -> None:
    first = fresh_tensor(1000, 1000).fill_(1)
    part = first[5:]
    del first
    second = fresh_tensor(1000, 1000).fill_(2)
    assert part.eq(1).all()
    assert second.eq(2).all()
    assert fresh_tensor(3, 200_000, dtype=np.float64).shape == (3, 200_000)
