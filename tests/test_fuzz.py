"""Whatever a command is given, it ends with a message and a documented exit code.

`make fuzz` tries many more.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fuzzing import KINDS, Case, carry_out, make_models
from hostile import VALUES
from hypothesis import given
from hypothesis import strategies as st

from stacktrans.common.errors import StacktransError
from stacktrans.common.registry import GENERATORS
from stacktrans.settings.layers import Settings, SettingsLayer, nested
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task

CASES = 12
"""Of each kind."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, machine_of: Callable[[str], Path]) -> Path:
    return make_models(tmp_path_factory.mktemp("models"), machine_of("reverse-stack"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_fuzzed_command_ends_properly(models: Path, kind: str) -> None:
    for number in range(CASES):
        case = Case(kind, number)
        verdict = carry_out(case, models)
        assert not verdict.problem, f"{case}: {verdict.problem}"


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Whatever is refused, the reason is given; nothing else may be raised."""
    reason = "none"
    try:
        yield
    except StacktransError as error:
        reason = str(error)
    assert reason


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(VALUES)
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=6,
)


def setting_paths(settings: Settings, prefix: str = "") -> list[str]:
    """The paths of all settings and of the sections that they stand in."""
    found = []
    for key, value in settings.items():
        found.append(prefix + key)
        found += setting_paths(value, f"{prefix}{key}.") if isinstance(value, dict) else []
    return found


BASE: Settings = {"model": {"memory": "queue"}}
PATHS = setting_paths(resolve(task="svo-sov", settings=BASE).model_dump())


@given(st.sampled_from(PATHS), TREES)
def test_any_value_of_any_setting_is_taken_or_refused(path: str, value: Any) -> None:
    option = SettingsLayer("--option", nested(path, value))
    with refusals():
        assert resolve(task="copy", settings=BASE, options=[option]).model.memory


PARAMETERS = ("symbols", "deleted", "pattern", "root", "rules", "predict", "characters", "unit")


@given(st.sampled_from([*GENERATORS.builtin]), st.dictionaries(st.sampled_from(PARAMETERS), TREES))
def test_any_parameters_of_any_generator_are_taken_or_refused(
    generator: str, parameters: Settings
) -> None:
    with refusals():
        assert len(make_task("any", generator, parameters).source) > 0
