"""Shipped tasks, and how tests write their answers."""

from collections.abc import Sequence

from stacktrans.settings.task_files import load_task
from stacktrans.tasks import make_task
from stacktrans.tasks.base import Task


def task_of(name: str) -> Task:
    config = load_task(name)
    return make_task(config.name, config.generator, config.parameters)


def written(task: Task, answer: Sequence[str | None]) -> str:
    """An answer with a dot where it can't be known."""
    return task.target.join([symbol or "." for symbol in answer])
