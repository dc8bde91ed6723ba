"""`load` and `Model`: what a trained model can be asked for."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self, overload

from stacktrans.api.arguments import (
    Count,
    Data,
    NameOrPath,
    Range,
    Seconds,
    Seed,
    Source,
    Text,
    Texts,
    checked,
    lines_of,
    parser,
)
from stacktrans.api.results import Answer, Evaluation, Trace, Verification
from stacktrans.automata.machine import Machine
from stacktrans.decoding.beam import beam_width
from stacktrans.extraction.learner import TIME_LIMIT, Learner
from stacktrans.inference import trace as inference
from stacktrans.inference.evaluation import EvalRequest, evaluate
from stacktrans.inference.perplexity import perplexities
from stacktrans.inference.transduction import AnswerOptions, transduce_strings
from stacktrans.inference.verification import VerifyRequest, verify
from stacktrans.model import checkpoint
from stacktrans.model.ablation import ablate
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.showing.progress import as_html
from stacktrans.tasks.lengths import Lengths


def _model(value: Any) -> "Model":
    if not isinstance(value, Model):
        raise TypeError
    return value


Loaded = Annotated[Any, parser(_model, "a model that load returned")]


class Model:
    """A trained transducer; `load` returns it.

    Attributes:
        config: the configuration of its run.
    """

    def __init__(self, loaded: checkpoint.Checkpoint) -> None:
        self._loaded = loaded
        self.config: RunConfig = loaded.config

    @property
    def path(self) -> Path:
        """The directory of its checkpoint."""
        return self._loaded.path

    @property
    def network(self) -> Transducer:
        """The torch module."""
        return self._loaded.model

    @property
    def machine(self) -> Machine | None:
        """The automaton of an extracted machine; None for a network."""
        return self._loaded.machine

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        models = self._loaded.members or [self._loaded]
        return sum(weight.size for each in models for weight in each.weights.values())

    @overload  # a string is a sequence of strings, too, but is one source
    def transduce(  # type: ignore[overload-overlap]
        self,
        sources: str,
        *,
        max_length: int | None = None,
        everything: bool = False,
        beam: int | None = None,
    ) -> str: ...

    @overload
    def transduce(
        self,
        sources: Sequence[Source],
        *,
        max_length: int | None = None,
        everything: bool = False,
        beam: int | None = None,
    ) -> list[str]: ...

    @checked
    def transduce(
        self,
        sources: Texts,
        *,
        max_length: Count | None = None,
        everything: bool = False,
        beam: Count | None = None,
    ) -> str | list[str]:
        """The answers to sources, in their order; for a single string, its answer.

        Args:
            sources: strings as `stacktrans transduce` reads them from lines, or tuples of a string
                and its features, in the order of the columns that the model was trained on.
            max_length: the longest answer, in symbols. By default, it is twice the length of
                the longest targets in training for a source of that length, plus 20, or the length
                that answers of streams and texts can be expected to need. An answer that the model
                does not end by then is cut off; `answers` returns whether it was `ended`.
            everything: whether the model's own output replaces `·` for symbols that are not scored.
            beam: number of hypotheses that a search for the most probable answer keeps at each
                step; answers are greedy unless it is given.

        Raises:
            StacktransError: a source can't be transduced; the message says which, from 1.
        """
        options = AnswerOptions(max_length, not everything, beam)
        lines = transduce_strings(self._loaded, lines_of(sources), options)
        texts = [line.output or "" for line in lines]
        return texts[0] if isinstance(sources, str) else texts

    @checked
    def answers(
        self, sources: Texts, *, max_length: Count | None = None, beam: Count | None = None
    ) -> list[Answer]:
        """The answers to sources, with their probabilities and scored symbols.

        Arguments and errors are those of `transduce`; a single string is a list of one. With a
        beam, each answer has all its `hypotheses`.
        """
        options = AnswerOptions(max_length, beam=beam, full=True)
        return [
            Answer(
                line.source or "",
                line.output or "",
                1.0 if line.probability is None else line.probability,
                line.probability is None or bool(line.ended),
                line.scored,
                line.hypotheses,
            )
            for line in transduce_strings(self._loaded, lines_of(sources), options)
        ]

    @checked
    def trace(self, source: Text, *, contents: bool = True) -> Trace:
        """The steps of the model over a source.

        Args:
            source: a string.
            contents: whether steps have the contents of the memory, which takes time and memory
                quadratic in their number.

        Raises:
            StacktransError: the source can't be encoded, or the model's numbers overflow.
        """
        split = self._loaded.task.source.split(source)
        found = inference.trace(self._loaded, split, contents)
        return Trace(**vars(found), config=self.config, _loaded=self._loaded)

    @checked
    def evaluate(
        self,
        data: Data | None = None,
        *,
        lengths: Range | None = None,
        count: Count | None = None,
        seed: Seed = 1,
        each: bool = False,
        depth: Count | None = None,
        beam: Count | None = None,
        n_best: Count | None = None,
    ) -> Evaluation:
        """Measure accuracy on strings of the task, or on your own pairs.

        With pairs or a beam, the model also answers each source without its target.

        Args:
            data: pairs with the columns of the model's files, perhaps in a DataFrame of pandas,
                whose columns are found by their names if these are known; or a file of pairs as
                `stacktrans generate` writes it. By default, strings of the task are drawn; a model
                that was trained on pairs in files is evaluated on its test set. Pairs with symbols
                that the model does not know count as wrong.
            lengths: shortest and longest source; by default, the test lengths of the task, or all
                of the file.
            count: number of strings; by default 1000, or all of the file; with `each`, 100 of each
                length.
            seed: random seed of the strings.
            each: whether to draw `count` strings of each length.
            depth: for a task with a grammar, the maximum depth of derivations, all equally likely.
            beam: as for `transduce`; coarse and fine accuracy are then those of the answers.
            n_best: for oracle accuracy, the number of best answers among which targets are looked
                for; found with a beam as wide unless `beam` is given.

        Raises:
            StacktransError: there are no such strings, or the file has lines that are not pairs.
            UsageError: the model is a language model (use `perplexity`), or an argument is wrong.
        """
        request = EvalRequest(
            data=data,
            bounds=[Lengths(*lengths)] if lengths else [],
            test_only=True,
            count=count,
            each=each,
            depth=depth,
            seed=seed,
            beam=beam_width(beam, n_best) or (None if data is None else 1),
            n_best=n_best,
        )
        ((measured, scores),) = evaluate(self._loaded, request)
        return Evaluation(measured, scores, self._loaded.hard)

    @checked
    def verify(
        self,
        other: Loaded | None = None,
        *,
        exhaustive: Count = 20_000,
        count: Count = 10_000,
        longest: Count = 10_000,
        seed: Seed = 1,
    ) -> Verification:
        """Look for a string that the model answers wrongly, or differently from another model.

        For a machine, `verify` also tries to prove that all its answers are right, however long
        the string; for two machines, that they give the same answers.

        Args:
            other: another model with the same alphabets; None for the answers of the task.
            exhaustive: test all strings up to the greatest length for which there are at most this
                many in all.
            count: number of random strings of training and test lengths.
            longest: length of the longest strings.
            seed: random seed of the strings.

        Raises:
            UsageError: the model is a language model, or the alphabets differ.
        """
        request = VerifyRequest(exhaustive, count, longest, seed)
        models = [each._loaded for each in (self, other) if each]
        found = verify(self._loaded, request, *models[1:])
        named = [(str(model.path), model) for model in models]
        return Verification(**vars(found), _models=named)

    @checked
    def extract(self, time_limit: Seconds = TIME_LIMIT) -> Self:
        """Extract a machine from the model, whose signals are rounded to 0 or 1.

        Args:
            time_limit: the seconds that learning it may take.

        Raises:
            StacktransError: no machine can be extracted, or none was found; the message says why.
        """
        machine = Learner(self._loaded, time_limit).learn().machine
        return type(self)(replace(self._loaded, weights={}, hard=False, machine=machine))

    @checked
    def without(self, part: Text) -> Self:
        """An ablation of the model, without one of its parts.

        Args:
            part: "memory", whose reads are then zero; "pushes" or "pops", which are blocked; or
                "state", that of the controller, which is reset at each step.

        Raises:
            UsageError: there is no such part, or the model does not have it.
        """
        return type(self)(ablate(self._loaded, part))

    @checked
    def perplexity(self, text: NameOrPath | None = None) -> dict[str, float]:
        """The perplexity of a language model on a file, or on the texts of its run, by name.

        Raises:
            StacktransError: the model is not a language model, or a file can't be read.
        """
        measured = perplexities(self._loaded, None if text is None else Path(text))
        return {name: result.perplexity for name, result in measured.items()}

    def __repr__(self) -> str:
        hard = ", hard" if self._loaded.hard else ""
        weights = "" if self.machine else f"; {self.parameters:,} parameters{hard}"
        return f"Model({self._loaded.description}{weights})"

    def _repr_html_(self) -> str:
        return as_html(repr(self).removeprefix("Model(").removesuffix(")"))


@checked
def load(name: NameOrPath, *, device: Text = "auto", hard: bool = False) -> Model:
    """Load a trained model.

    Args:
        name: of a shipped checkpoint, or the directory of a checkpoint or a run.
        device: auto, cpu, cuda, cuda:1, ...
        hard: whether to make the memory discrete: strengths are rounded to 0 or 1, and only the
            most probable action is taken.

    Raises:
        CheckpointError: it does not exist, or is damaged.
        UsageError: the device does not exist.
    """
    return Model(checkpoint.load(os.fspath(name), device, hard))


@checked
def ensemble(models: Sequence[Loaded]) -> Model:
    """Several models as one, whose probability of each symbol is the mean of theirs.

    It answers and is evaluated like any other model, but it has no traces, weights or ablations.

    Args:
        models: models that `load` returned.

    Raises:
        UsageError: there are none, one has buffers, or their alphabets or layouts differ.
    """
    return Model(checkpoint.ensemble_of([model._loaded for model in models]))
