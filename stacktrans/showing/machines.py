"""Machines as tables of rules, and as model cards in Markdown."""

from stacktrans.automata.machine import Machine
from stacktrans.automata.wording import actions, state_names, stateless_condition
from stacktrans.common.visible import markdown_table, markdown_text, visible
from stacktrans.extraction.learner import Extraction
from stacktrans.model.description import machine_line
from stacktrans.showing.tables import Column, Table
from stacktrans.showing.traces import RULE


def rules_table(machine: Machine) -> Table:
    """The rules, numbered, in words."""
    several = machine.states.size > 1
    state = Column("state", left=True, fold=" or ")
    rows = []
    for number, rule in enumerate(machine.rules, start=1):
        states = [state_names(machine, rule.when[-1])] if several else []
        condition = stateless_condition(machine, rule.when, rule.equal)
        rows.append([number, *states, condition, actions(machine, rule)])
    return Table("rule", *([state] if several else []), *RULE, rows=rows)


def agreement_table(extraction: Extraction) -> Table:
    """The agreement of machine and network."""
    columns = Column("strings", left=True), "number", "same answer"
    return Table(*columns, rows=extraction.agreement)


def card(extraction: Extraction, source: str) -> str:
    """The model card of a machine: its rules, and its agreement with its model.

    Args:
        extraction: the machine and its agreement.
        source: the name of the model.
    """
    machine = extraction.machine
    rules = [
        (rule.number, markdown_text(rule.when), markdown_text(rule.action))
        for rule in machine.rule_descriptions
    ]
    return f"""# A machine for {machine.task}

Extracted from `{visible(source)}` by `stacktrans extract`: {machine_line(machine)}.

{markdown_table(["rule", "when", "action"], rules)}

Agreement with the model, whose signals are rounded to 0 or 1:

{markdown_table(["strings", "number", "same answer"], extraction.agreement)}
"""
