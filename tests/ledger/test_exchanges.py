"""The exchanges of a ledger: a request, and the agent's last words on it."""

from __future__ import annotations

from clew.ledger import Ledger
from clew.testing import assistant, call, tool, user


def test_an_exchange_goes_from_a_request_to_the_next_and_ends_with_the_agents_last_words() -> None:
    ledger = Ledger.of([
        user("Port it."),
        assistant("Let me look.", [call("read_file", {"path": "a.py"}, "a")]),
        tool("a", "x = 1"),
        assistant("It is ported."),
        user("Which bucket?"),
        assistant("acme-eu."),
    ])  # fmt: skip
    first, second = ledger.exchanges
    assert (first.number, first.request, first.closing, first.closing_number) == (0, "Port it.", "It is ported.", 3)
    assert first.said == [1, 3]
    assert (second.number, second.closing, second.said) == (4, "acme-eu.", [5])


def test_an_agent_that_begins_by_itself_has_an_exchange_without_a_request() -> None:
    [exchange] = Ledger.of([assistant("The nightly run failed.")]).exchanges
    assert (exchange.number, exchange.request, exchange.closing) == (0, "", "The nightly run failed.")


def test_the_numbers_of_messages_may_have_gaps_and_come_twice() -> None:
    messages = [user("Port it."), assistant(None, [call("terminal", {"command": "ls"}, "a")]), tool("a", "none")]
    ledger = Ledger.of([*messages, user("On."), assistant("Yes.")], [0, 3, 3, 7, 8])
    assert [(one.number, one.closing_number) for one in ledger.exchanges] == [(0, None), (7, 8)]
    assert [(one.number, one.result) for one in ledger.actions] == [(3, 3)]
    assert ledger.next_number == 9


def test_what_a_person_pasted_from_the_agent_is_no_rule_of_theirs() -> None:
    said = "Never touch prod.db is what the README says."
    ledger = Ledger.of([user("Read it."), assistant(said), user(f"{said}\nWhere does it say so? Always cite lines.")])
    assert [rule.text for rule in ledger.rules] == ["Always cite lines."]


def test_a_choice_is_of_what_the_last_words_offered() -> None:
    ledger = Ledger.of([user("Port it."), assistant("1. asyncio\n2. threads\nWhich?"), user("2")])
    assert ledger.exchanges[-1].chosen == "threads"
