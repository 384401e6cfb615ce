"""The choice of lines to quote: more of them with more room, and fewer without those that came last."""

from __future__ import annotations

from clew.ledger import AtomIndex, QuoteSelector
from clew.messages import Message

_LINES = [
    "the server reads settings/server.toml when it starts",
    "whoever signs in is looked up in accounts_v2.db first",
    "uploads wait below /var/spool/uploads until midnight",
    "port 8443 is opened before any worker_pool exists",
    "retries double from 0.5 seconds, see retry_policy.py",
    "nothing is written while LOCK_FILE can be found",
    "invoices older than 2019 moved into archive_store",
    "the nightly job calls rebuild_index and then stops",
    "mails leave through relay_host, never directly",
    "currency tables come from rates_daily.csv each morning",
]
_MESSAGES: list[Message] = [
    {"role": "user", "content": "Which files are read?"},
    {"role": "tool", "tool_call_id": "1", "content": "\n".join(_LINES[:5])},
    {"role": "tool", "tool_call_id": "2", "content": "\n".join(_LINES[5:])},
]


def _selector() -> QuoteSelector:
    index = AtomIndex()
    for number, message in enumerate(_MESSAGES):
        index.add(message, number)
    return QuoteSelector(
        index, _MESSAGES.__getitem__, 0, lambda number: number > 0, lambda number, part: ((number, part), 10)
    )


def _lines(quotes: dict[tuple[int, int], list[str]]) -> set[str]:
    return {line for own in quotes.values() for line in own}


def test_with_more_room_nothing_is_lost_that_was_selected() -> None:
    selector = _selector()
    few, spent = selector.select(200, 600, set())
    more, spent_then = selector.select_more(600, 600)
    assert _lines(few) < _lines(more)
    assert spent <= 200 < spent_then <= 600


def test_what_was_taken_last_is_given_back_where_there_was_too_much() -> None:
    selector = _selector()
    first, _ = selector.select(200, 600, set())
    all_of_it, spent = selector.select_more(600, 600)
    fewer, spent_then = selector.select_fewer(spent - 100)
    assert spent_then <= spent - 100
    assert _lines(first) <= _lines(fewer) < _lines(all_of_it)


def test_all_of_it_can_be_given_back() -> None:
    selector = _selector()
    selector.select(600, 600, set())
    assert selector.select_fewer(0)[0] == {}


def test_a_result_that_came_since_the_last_change_may_have_twice_as_much_of_the_room() -> None:
    def shelves(hall: int) -> str:
        return "\n".join(f"row_{hall}_{part} = {part + 20}  # boxes of apples and pears" for part in range(80))

    messages: list[Message] = [{"role": "user", "content": "Which shelves are there?"}]
    messages += [{"role": "tool", "tool_call_id": str(hall), "content": shelves(hall)} for hall in range(1, 6)]
    index = AtomIndex()
    for number, message in enumerate(messages):
        index.add(message, number)

    def told_of_last(last_change: int) -> int:
        selector = QuoteSelector(
            index,
            messages.__getitem__,
            0,
            lambda number: number > 0,
            lambda number, part: ((number, part), 10),
            last_change=last_change,
        )
        quotes, _ = selector.select(6_000, 6_000, set())
        assert len(quotes) == 5  # the others have something to say, too
        return len(quotes[5, 0])

    assert told_of_last(4) > 1.5 * told_of_last(-1)
