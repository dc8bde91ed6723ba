"""Optimizers are those of torch, and load less."""

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch

from stacktrans.training import optimizers

KINDS: dict[str, dict[str, Any]] = {
    "Adam": {"fused": True},
    "RMSprop": {"foreach": True, "alpha": 0.9},
    "SGD": {"foreach": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_optimizers_match_torch_also_after_loading_a_state(kind: str) -> None:
    torch.manual_seed(1)
    first = [torch.randn(3, 2) for _ in range(2)]
    gradients = [[torch.randn(3, 2) for _ in first] for _ in range(6)]
    found = []
    for module in (optimizers, torch.optim):
        weights = [torch.nn.Parameter(weight.clone()) for weight in first]
        groups = [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.02}]
        make = getattr(module, kind)
        optimizer = make(groups, lr=0.01, weight_decay=0.1, **KINDS[kind])
        for number, parts in enumerate(gradients):
            if number == 3:
                state = copy.deepcopy(optimizer.state_dict())
                optimizer = make(groups, lr=1.0, weight_decay=0.0, **KINDS[kind])
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            assert all(weight.grad is None for weight in weights)
            for weight, part in zip(weights, parts, strict=True):
                weight.grad = part.clone()
            optimizer.step()
        found.append(weights)
    for one, other, before in zip(*found, first, strict=True):
        assert torch.equal(one, other)
        assert not torch.equal(one, before)


def test_optimizers_do_not_import_torch_dynamo() -> None:
    program = (
        "import sys, torch\n"
        "from stacktrans.training import optimizers\n"
        "weight = torch.nn.Parameter(torch.zeros(1))\n"
        "optimizer = optimizers.RMSprop([weight], foreach=True)\n"
        "optimizer.zero_grad()\n"
        "weight.grad = torch.ones(1)\n"
        "optimizer.step()\n"
        "optimizer.load_state_dict(optimizer.state_dict())\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
