"""Settings and files of settings that are wrong are named, with the line."""

from pathlib import Path

import pytest
from test_config import QUEUE, copy_queue

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.settings.resolve import resolve
from stacktrans.settings.task_files import find_task, load_task

GRAMMAR = """name: t
length_law: task
lengths: {train: [1, 2], test: [3, 4]}
generator: grammar
parameters:
  root: A
  rules:
    A:
      - {probability: 1/2, source: "a"}
      - {probability: 1/2, source: "b"}
"""


@pytest.mark.parametrize("recipe", ["default", "stack", "papre"])
def test_training_settings_in_a_task_file_are_refused_with_their_line(
    tmp_path: Path, recipe: str
) -> None:
    path = tmp_path / "mine.yaml"
    text = find_task("copy").read_text()
    path.write_text(f"{text}recipes:\n  {recipe}: {{training: {{batch_size: 3}}}}\n")
    line = len(text.splitlines()) + 2
    complaint = rf"mine.yaml:{line}: recipes.{recipe}: expected only paper"
    for used in (lambda: load_task(str(path)), lambda: resolve(task=str(path), settings=QUEUE)):
        with pytest.raises(UsageError, match=complaint):
            used()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"assignments": ["learning_rat=1"]}, "did you mean 'learning_rate'"),
        ({"assignments": ["hiden_size=1"]}, "did you mean 'hidden_size'"),
        ({"assignments": [".seed=2"]}, "setting .seed=2: unknown setting '.seed'"),
        ({"assignments": ["learning_rate"]}, "setting learning_rate: expected key=value"),
        ({"assignments": ["learning_rate=fast"]}, "setting learning_rate=fast: .*'fast'"),
        ({"assignments": ["learning_rate=-1"]}, "expected a number over 0 or .*given: -1"),
        ({"assignments": ["batch_size=2.5"]}, "setting batch_size=2.5"),
        ({"assignments": ["batch_size=true"]}, "training.batch_size: expected a number .given: T"),
        ({"assignments": ["memory.size=no"]}, "model.memory.size: expected a number .given: F"),
        ({"assignments": ["memory_size=4"]}, "unknown setting 'memory_size'"),
        ({"assignments": ["memory.count=2"]}, "setting memory.count=2: .*queue has no count"),
        ({"assignments": ["learning_rate=yes"]}, "training.learning_rate: expected a number"),
        ({"assignments": ["task.name=a b"]}, "name: expected a name of letters, .*'a b'"),
        ({"assignments": ["learning_rate="]}, "setting learning_rate=: expected key=value"),
        ({"assignments": ["gate_bias={forget: yes}"]}, "expected a number"),
        ({"assignments": ["lengths.train=[yes, 10]"]}, "expected numbers"),
        ({"assignments": ["length_law={mean: true, deviation: 3}"]}, "length_law"),
        ({"assignments": ["length_law={depth: yes}"]}, "length_law"),
        ({"assignments": ["restart.attempts=[{gate_bias: {forget: true}}]"]}, "expected a number"),
        (
            {"assignments": ["restart.attempts=[{weights: bad}]", "seed=2"]},
            "setting restart.attempts=.*training.restart.attempts.0.weights: .*uniform",
        ),
        (
            {"assignments": ["signal_bias={puhs: 1}", "seed=2"]},
            "setting signal_bias=.*unknown signal 'puhs'; did you mean 'push'",
        ),
        ({"assignments": ["batch_size=25e-1"]}, "training.batch_size: .* .given: '25e-1'"),
        ({"assignments": ["task.generator=cpy"]}, "unknown generator 'cpy'; did you mean 'copy'"),
        ({"assignments": ["optimizer=lion"]}, "expected rmsprop, adam or sgd"),
        ({"assignments": ["memory=heap"]}, "unknown memory 'heap'"),
        ({"assignments": ["controller=lstn"]}, "did you mean 'lstm'"),
        ({"assignments": ["task.lengths.train=[9, 3]"]}, "expected 0 <= shortest <= longest"),
        ({"assignments": ["hidden_size={a"]}, "not readable as YAML"),
        ({"recipe": "papr"}, "did you mean 'paper'"),
    ],
)
def test_wrong_settings_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        copy_queue(**changes)


def test_a_task_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="name is missing"):
        resolve(settings={**QUEUE, "task": {"generator": "copy"}})


def test_a_missing_task_or_memory_is_named() -> None:
    with pytest.raises(UsageError, match="no task given"):
        resolve(settings=QUEUE)
    with pytest.raises(UsageError, match="no memory given"):
        resolve(task="copy")
    with pytest.raises(UsageError, match="did you mean 'reverse'"):
        resolve(task="revers", settings=QUEUE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "task: copy\nmodel:\n  memory: queue\n  embedding_size: -4\n",
            r":4: model.embedding_size.*-4",
        ),
        ("task: copy\nmodel:\n  memory: queue\n  embeding_size: 4\n", r":4: .*'embedding_size'"),
        ("task: copy\nmodel: {memory: queue\n", r":\d: "),
        ("- a\n- b\n", "expected settings"),
        ("task: 5\nmodel: {memory: queue}\n", r":1: task: expected a name or settings"),
        ("task: copy\nformat: 99\nmodel: {memory: queue}\n", r"format: expected 3 \(given: 99\)"),
        ("task: copy\nmodel: queue\n", r":2: model"),
        ("task: copy\ntraining:\nmodel: {memory: queue}\n", r":2: training"),
        ("task: copy\nrecipe: [a]\nmodel: {memory: queue}\n", r":2: recipe"),
        ("task: copy\nrecipe: papre\nmodel: {memory: queue}\n", r":2: unknown recipe 'papre'"),
    ],
)
def test_wrong_files_are_named_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(StacktransError, match=message) as caught:
        resolve(config=str(path))
    assert "broken.yaml" in str(caught.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent.yaml: No such file"):
        resolve(config=str(tmp_path / "absent.yaml"))
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary.yaml: not a text file"):
        resolve(config=str(tmp_path / "binary.yaml"))
    with pytest.raises(UsageError, match="Is a directory"):
        resolve(config=str(tmp_path))


def test_wrong_task_files_are_named_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("name: t\ngenerator: copy\nlengths:\n  train: [1, 2]\n  tests: [3, 4]\n")
    with pytest.raises(UsageError) as caught:
        resolve(task=str(path), settings=QUEUE)
    message = str(caught.value)
    assert "task.yaml:5: unknown setting 'tests'; did you mean 'test'?" in message
    assert "lengths.test is missing" in message
    path.write_text("name: t\ngenerator: copy\n")
    with pytest.raises(UsageError) as caught:
        resolve(task=str(path), settings=QUEUE)
    assert "task.yaml:1: lengths is missing" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("generator: grammar", "generator: gramar", ":4: task t: unknown generator 'gramar'"),
        ("generator: grammar", "generator: copy", ":6: task t: unknown parameter 'root'"),
        ("root: A", "root: B", ":6: task t: parameters: root: unknown nonterminal 'B'"),
        ('1/2, source: "b"', '1/3, source: "b"', ":9: .*the probabilities sum to 0.8333"),
        ('"b"', '"b B:1"', ":10: .*alternative 2: unknown nonterminal 'B'"),
        ('"b"', '"{k}", each: {k: [1, 99999999999]}', ":10: .* at most 100000 of them"),
    ],
)
def test_tasks_that_can_not_be_made_are_named_with_the_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(GRAMMAR)
    assert load_task(str(path)).name == "t"
    path.write_text(GRAMMAR.replace(old, new))
    for make in (lambda: load_task(str(path)), lambda: resolve(task=str(path), settings=QUEUE)):
        with pytest.raises(UsageError, match=f"task.yaml{message}"):
            make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("controller=linear", "layers=2"), "controller linear has no layers"),
        (("embedding_size=two",), "embedding_size"),
        (("task.length_law={dept: 3}",), "length_law"),
        (("memory.values=relu",), "model.memory.values: expected tanh or sigmoid"),
        (("stop=null", "max_steps=null"), "stop: null needs max_steps, time_limit or data.stream"),
        (("stop={solved: {}, converged: {}}",), "expected one of solved, converged, development"),
        (("buffers.steps=2",), "unknown setting .steps."),
    ],
)
def test_settings_that_do_not_fit_are_named(changes: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        copy_queue(assignments=list(changes))
