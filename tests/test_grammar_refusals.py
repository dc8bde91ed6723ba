"""Sentences outside a grammar, and invalid grammars, are refused with a reason."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from literal_grammar import Parameters, alternative, parameters_of, rules

from stacktrans.grammar import Grammar, GrammarError
from stacktrans.grammar.rules import read_rules
from stacktrans.tasks import TaskError, make_task
from stacktrans.tasks.grammatical import GrammarTask


@pytest.fixture(scope="module")
def svo_sov() -> Grammar:
    return Grammar(**parameters_of("svo-sov"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "si1 si4 vi9 vi8 oi1",
            "word 4, 'vi8': no sentence of the grammar begins 'si1 si4 vi9 vi8'",
        ),
        ("si1 vi3", "the sentence ends too early: 'si1 vi3' only begins a sentence of the grammar"),
        ("oi1", "word 1, 'oi1': no sentence of the grammar begins 'oi1'"),
        ("si1 vi3 po2", "word 3, 'po2': no sentence of the grammar begins 'si1 vi3 po2'"),
        ("", "the source is empty; expected at least one word"),
    ],
)
def test_sources_outside_the_grammar_are_refused(
    svo_sov: Grammar, source: str, message: str
) -> None:
    with pytest.raises(GrammarError) as raised:
        svo_sov.translate(source.split())
    assert str(raised.value) == message


def test_long_sources_are_shown_in_part(svo_sov: Grammar) -> None:
    source = [f"si{k}" for k in range(1, 34)] + ["vi1", "vi2", "oi1"]
    shown = "si1 si2 si3 ... si28 si29 si30 si31 si32 si33 vi1 vi2"
    with pytest.raises(
        GrammarError,
        match=re.escape(f"word 35, 'vi2': no sentence of the grammar begins '{shown}'"),
    ):
        svo_sov.translate(source)


def test_alternatives_without_a_probability_share_the_rest() -> None:
    written = rules(S=["1/2: a", "1/2: b", "1/2: c{k}"])
    alternatives = written["rules"]["S"]
    for each in alternatives[1:]:
        del each["probability"]
    alternatives[2]["each"] = {"k": [1, 5]}
    read = read_rules(written["rules"])["S"]
    assert [each.probability for each in read] == pytest.approx([0.5, 0.25, *[0.05] * 5])


def test_a_grammar_may_have_only_rules_of_one_word() -> None:
    grammar = Grammar(**rules(S=["1/2: yes / no", "1/2: no / yes"]))
    assert grammar.translate(["yes"]) == ["no"]
    with pytest.raises(GrammarError, match="word 2, 'no': no sentence"):
        grammar.translate(["yes", "no"])


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (4, "no sentence of the grammar has 4 source words"),
        (0, "no sentence of the grammar has 0 source words"),
        (-1, "no sentence of the grammar has -1 source words"),
    ],
)
def test_impossible_lengths_are_refused(length: int, message: str) -> None:
    grammar = Grammar(**rules(S=["1/2: a S:1 b", "1/2: c"]))
    with pytest.raises(GrammarError, match=message):
        grammar.sample(np.random.default_rng(0), length)


def changed(change: Callable[[Parameters], object]) -> Parameters:
    parameters = rules(
        S=["1/2: NP:1 VP:2 / VP:2 NP:1", "1/2: and S:1 / S:1 und"], NP=["1: he / er"], VP=["1: is"]
    )
    change(parameters)
    return parameters


def replacing(line: str) -> Parameters:
    return changed(lambda p: p["rules"].update(VP=[alternative(line)]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            replacing("1: is VPP:1"),
            "nonterminal 'VP', alternative 1: unknown nonterminal 'VPP'; did you mean 'VP'?",
        ),
        (
            replacing("1: NP:1 is / ist"),
            "nonterminal 'VP', alternative 1: source 'NP:1 is' and target 'ist' do not link",
        ),
        (replacing("1: NP:1 is / ist NP:2"), "do not link the same nonterminals"),
        (replacing("1: NP:1 is / ist VP:1"), "do not link the same nonterminals"),
        (replacing("1: NP:1 VP:1"), "'NP:1 VP:1' has index 1 twice; expected it once"),
        (replacing("1: is NP"), "'NP' looks like the nonterminal NP without its index"),
        (replacing("1: is NP2"), "'NP2' looks like the nonterminal NP without its index"),
        (replacing("1: is NP:a"), "'NP:a' looks like the nonterminal NP without its index"),
        (replacing("1: is / NP"), "expected 'NP:1', or another word"),
        (replacing("1: VP:1"), "nonterminal 'VP': a cycle of unit productions (VP -> VP)"),
        (replacing("1: VP:1 NP:2"), "no derivation from S, VP ever ends"),
        (replacing("0.9: is"), "nonterminal 'VP': the probabilities sum to 0.9; expected 1"),
        (replacing("0: is"), "alternative 1: the probability is '0'; expected a number"),
        (replacing("1/0: is"), "the probability is '1/0'; expected a number or fraction above 0"),
        (replacing("nan: is"), "the probability is 'nan'"),
        (replacing("often: is"), "the probability is 'often'"),
        (changed(lambda p: p["rules"]["VP"][0].update(probability=True)), "probability is True"),
        (replacing("1: "), "alternative 1: the source is empty, which a grammar can't"),
        (replacing("1: is / "), "alternative 1: the target is empty, which a grammar can't"),
        (
            changed(lambda p: p["rules"]["VP"][0].update(source=7)),
            "the source is 7; expected words",
        ),
        (replacing("1: is{k}"), "{k} has no values; expected each: {k: [first, last]}"),
        (
            changed(lambda p: p["rules"]["VP"][0].update(each={"k": [1, 3]}, target="ist{k}")),
            "alternative 1: the source has no {k}; expected one",
        ),
        (
            changed(lambda p: p["rules"]["VP"][0].update(each={"k": [1, 3]}, source="is{j}")),
            "{j} has no values; expected {k}, as in each",
        ),
        (
            changed(lambda p: p["rules"]["VP"][0].update(each={"k": [3, 1]}, source="is{k}")),
            "each is {'k': [3, 1]}; expected one name and its values",
        ),
        (
            changed(lambda p: p["rules"]["VP"][0].update(each=["k"], source="is{k}")),
            "each is ['k']; expected one name and its values",
        ),
        (
            changed(lambda p: p["rules"]["VP"][0].update(sourse="is")),
            "unknown key of an alternative 'sourse'; did you mean 'source'?",
        ),
        (
            changed(lambda p: p["rules"]["VP"][0].pop("source")),
            "nonterminal 'VP', alternative 1: an alternative has no 'source'; expected source",
        ),
        (
            changed(lambda p: p["rules"]["VP"].append({"source": "was"})),
            "alternative 2: it has no probability, and the others leave none; expected one",
        ),
        (changed(lambda p: p["rules"].update(VP=["is"])), "alternative 1: 'is'; expected {prob"),
        (changed(lambda p: p["rules"].update(VP=[])), "nonterminal 'VP': []; expected a list"),
        (changed(lambda p: p["rules"].update({False: []})), "False is not a name of a nonterminal"),
        (changed(lambda p: p["rules"].update({"a b": []})), "'a b' is not a name of a nonterminal"),
        (changed(lambda p: p.update(rules={})), "rules: {}; expected nonterminals"),
        (changed(lambda p: p.update(root="X")), "root: unknown nonterminal 'X'"),
        (
            rules(S=["1/2: T:1", "1/2: s"], T=["1/2: U:1", "1/2: t"], U=["1/2: S:1", "1/2: u"]),
            "-> T -> U ->",
        ),
    ],
)
def test_invalid_grammar_rules_are_refused(parameters: Parameters, message: str) -> None:
    with pytest.raises(GrammarError) as raised:
        GrammarTask(**parameters)
    assert message in str(raised.value)


@pytest.mark.parametrize("generator", ["grammar", "same-length-grammar", "membership"])
def test_missing_and_unknown_parameters_are_refused(generator: str) -> None:
    parameters = parameters_of("svo-sov")
    with pytest.raises(TaskError, match=f"generator {generator} needs root"):
        make_task("mine", generator, {"rules": parameters["rules"]})
    expected = "unknown parameter 'charactes'; did you mean 'characters'?"
    with pytest.raises(TaskError, match=re.escape(expected)):
        make_task("mine", generator, {**parameters, "charactes": True})


def test_the_characters_parameter_is_a_truth_value() -> None:
    with pytest.raises(ValueError, match="characters is 'no'; expected true or false"):
        GrammarTask(characters="no", root="S", rules={})  # type: ignore[arg-type]
