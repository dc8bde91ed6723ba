"""Runs that do not fit in memory are refused before any weights are allocated."""

import subprocess
import sys
from typing import Any

import pytest
from small_runs import CPU, small_run

from stacktrans.common.errors import UsageError
from stacktrans.model.transducer import Transducer, meta_transducer
from stacktrans.training.make_source import check_room, count_weights, make_source


def rehearse(*assignments: str) -> None:
    make_source(small_run(*assignments), CPU)


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (("layers=64", "hidden_size=65536"), r"model: its weights need at least [\d,]+\.\d GiB"),
        (
            (
                *("memory=list-rnn", "memory.count=65536", "memory.size=65536"),
                "memory.depth=65536",
                "hidden_size=65536",
            ),
            "model: too large: no computer could store its weights",
        ),
        (
            ("batch_size=65536", "lengths.train=[60000,65536]", "curriculum=null"),
            "training.batch_size: 65536 strings at once need",
        ),
        (("initialization.scale.reads=1e30",), "initialization.scale.reads"),
    ],
)
def test_runs_that_exceed_the_available_memory_are_refused(
    assignments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        rehearse(*assignments)


def test_a_run_is_checked_without_making_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stacktrans.training.make_source._main_memory_bytes", lambda: 2.0**50)
    checked: list[Transducer] = []

    def noted(*arguments: Any) -> Transducer:
        checked.append(meta_transducer(*arguments))
        return checked[-1]

    monkeypatch.setattr("stacktrans.training.make_source.meta_transducer", noted)
    rehearse("hidden_size=60000")
    (model,) = checked
    assert all(weight.is_meta for weight in model.parameters())


def test_a_run_is_checked_without_the_compiler_of_torch() -> None:
    program = (
        "import sys\n"
        "from stacktrans.model.transducer import meta_transducer\n"
        "from stacktrans.settings.resolve import resolve\n"
        "for controller in ('{name: rnn, recurrent: false}', 'linear'):\n"
        "    changes = ['memory=stack', f'controller={controller}']\n"
        "    meta_transducer(resolve(task='xor', assignments=changes).model, 9, 9)\n"
        "sys.exit('sympy' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("controller", ["lstm", "linear"])
def test_weights_are_counted_as_they_are_made(controller: str) -> None:
    config = small_run(f"controller={{name: {controller}}}")
    layout = make_source(config, CPU).layout
    model = Transducer(config.model, layout.inputs, layout.outputs)
    held = [*model.parameters(), *model.buffers()]
    counted = count_weights(meta_transducer(config.model, layout.inputs, layout.outputs))
    assert counted == sum(weight.numel() for weight in held)


def test_no_run_is_refused_if_the_size_of_memory_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = small_run("layers=64", "hidden_size=65536")
    layout = make_source(small_run(), CPU).layout
    with pytest.raises(UsageError):
        check_room(config, layout)
    monkeypatch.delattr("os.sysconf")
    check_room(config, layout)
