"""The map of the lossless engine: it uses the room it has, shows most of the newest part, and repeats no quote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest

from clew.engines import Compaction, EngineSetup, LosslessEngine, SessionStart
from clew.engines.lossless.map_text import ids_in_map, nodes_in_map
from clew.handoff import Handoff, Summary, SummaryInput, write_handoff
from clew.messages import Message
from clew.testing import assistant, call, tool, user
from clew.tokens import count_tokens
from tests.support.engines import MemoryEngineHost

SHARE = 0.5 * (0.20 + 0.25)
"""Of a window: what a fold that a person asks for leaves, by the default threshold, tail and map."""


def engine_for(target: int, *, by_model: bool = False) -> LosslessEngine:
    return LosslessEngine(EngineSetup(int(target / SHARE), summarize=_as_a_model if by_model else None))


async def _as_a_model(source: SummaryInput, budget: int) -> Summary:
    text = write_handoff(source, int(0.95 * budget), lambda text: len(text) // 3).render()
    return Summary(text, written_by="model", template="model/1")


def keepers(requests: int, words: int = 40) -> list[Message]:
    """A long conversation in which each exchange has a request, calls, results and an answer of its own."""
    messages: list[Message] = []
    for number in range(requests):
        id = f"c{number}"
        rows = "\n".join(f"pool_{number}_{row} = {number * 131 + row * 17} litres of brine" for row in range(words))
        messages += [
            user(f"Look at pool {number} in pools/{number}.toml and tell me how warm it is, please."),
            assistant(f"I read pools/{number}.toml.", [call("read", {"path": f"pools/{number}.toml"}, id=id)]),
            tool(id, rows),
            assistant(f"Pool {number} has {number * 3 + 1} degrees; the valve valve-{number * 7} is open."),
        ]
    return [*messages, user("Which pool is the coldest?")]


def one_long_task(calls: int) -> list[Message]:
    """One request and very many calls for it."""
    messages = [user("Find out why the seals are ill.")]
    for number in range(calls):
        rows = "\n".join(f"seal_{number}_{row}: weight {90 + row} kg, ate {row * 13 % 7} herring" for row in range(30))
        path = f"logs/{number}.txt"
        messages.append(assistant(f"Log {number} is next.", [call("read", {"path": path}, id=f"l{number}")]))
        messages.append(tool(f"l{number}", rows))
    return messages


def map_in(done: Compaction) -> str:
    assert done.summary is not None
    return done.summary


CONVERSATIONS = {
    "many requests": keepers(80),
    "long results": keepers(20, words=170),
    "one task": one_long_task(80),
}


@pytest.mark.parametrize("by_model", [False, True])
@pytest.mark.parametrize("target", [5_000, 10_000, 30_000])
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_fold_uses_most_of_its_target_and_no_more_than_it(name: str, target: int, by_model: bool) -> None:
    messages = CONVERSATIONS[name]
    done = await engine_for(target, by_model=by_model).compress(messages, force=True)
    assert count_tokens(messages) > 1.2 * target
    # What a model leaves of its room is filled with quotes, unless its text has them.
    least = 0.85 if by_model else 0.9
    assert least * target <= done.tokens_after <= 1.02 * target


@pytest.mark.parametrize("by_model", [False, True])
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_larger_target_never_shows_less(name: str, by_model: bool) -> None:
    shown_facts: list[tuple[int, int, int]] = []
    for target in (3_000, 6_000, 12_000, 24_000):
        done = await engine_for(target, by_model=by_model).compress(CONVERSATIONS[name], force=True)
        shown = "\n".join(str(message) for message in done.messages)
        shown_facts.append((target, done.tokens_after, len(set(re.findall(r"(?:pool|seal)_\d+_\d+|valve-\d+", shown)))))
    for (_, tokens, facts), (target, more_tokens, more_facts) in pairwise(shown_facts):
        assert more_tokens > tokens, target
        # Of the same few lines another choice may be made; a tenth less would be a loss.
        assert more_facts >= 0.9 * facts, target
    assert shown_facts[-1][2] > 2 * shown_facts[0][2]


async def folds_of(engine: LosslessEngine, messages: Sequence[Message], step: int) -> list[Compaction]:
    """The folds of a conversation that grows by some messages at a time, each stored as a host would."""
    host = MemoryEngineHost(messages)
    engine.on_session_start(SessionStart("s", host=host))
    view, folds, sent = list[Message](), list[Compaction](), 0
    while sent < len(messages):
        view += messages[sent : sent + step]
        sent += step
        if count_tokens(view) >= engine.threshold_tokens:
            done = await engine.compress(view)
            engine.restore(done.state)
            host.publish(done)
            view = list(done.messages)
            folds.append(done)
    return folds


def target_of(engine: LosslessEngine) -> int:
    return int(engine.threshold_tokens * engine.lossless.fold_to)


@pytest.mark.parametrize("by_model", [False, True])
async def test_every_fold_of_a_growing_conversation_uses_its_target(by_model: bool) -> None:
    engine = engine_for(6_000, by_model=by_model)
    folds = await folds_of(engine, CONVERSATIONS["many requests"], step=4)
    assert len(folds) > 4
    for done in folds:
        assert 0.9 * target_of(engine) <= done.tokens_after <= engine.threshold_tokens
        assert not quoted_twice(done.summary or "")


def quoted_twice(text: str) -> list[str]:
    """Quotes of a message that occur in two places."""
    quotes = [(found[2], found[1]) for found in re.finditer(r'(?m)^   "(.*)" (\(m\d+\))$', text)]
    return [
        said
        for at, (reference, said) in enumerate(quotes)
        for other in (*quotes[:at], *quotes[at + 1 :])
        if other[0] == reference and said in other[1]
    ]


async def test_the_newest_part_is_shown_in_more_detail_than_the_oldest() -> None:
    done = await engine_for(8_000).compress(CONVERSATIONS["many requests"], force=True)
    parts = nodes_in_map(map_in(done))
    assert len(parts) > 1
    assert len(parts[-1].text) / parts[-1].covered_tokens > 2 * len(parts[0].text) / parts[0].covered_tokens


async def test_requests_are_listed_once_and_references_are_to_messages_of_their_part() -> None:
    done = await engine_for(6_000).compress(CONVERSATIONS["many requests"], force=True)
    numbers = [int(number) for number in re.findall(r'(?m)^\d+\. "Look at pool .* \(m(\d+)', map_in(done))]
    assert numbers and len(numbers) == len(set(numbers))
    for part in nodes_in_map(map_in(done)):
        referenced = [int(number) for number in re.findall(r"\(m(\d+)", part.text)]
        assert referenced
        assert all(part.first <= number < part.last for number in referenced), part.id


async def test_a_task_that_reaches_over_several_parts_is_the_active_task() -> None:
    done = await engine_for(8_000).compress(CONVERSATIONS["one task"], force=True)
    parts = nodes_in_map(map_in(done))
    assert len(parts) > 1
    assert "why the seals are ill" in what_holds_now(done)
    assert all("seal_" in part.text for part in parts)


async def test_what_holds_now_is_written_once_before_the_parts() -> None:
    said = keepers(60)
    said[80:80] = [user("Never open the big valve, whatever happens."), assistant("Understood.")]
    done = await engine_for(6_000).compress([*said, assistant("It is pool 0."), *keepers(60)], force=True)
    text = map_in(done)
    assert text.count("## Active task") == text.count("## Constraints and preferences") == 1
    assert "Never open the big valve" in what_holds_now(done)


async def test_the_same_fold_gives_the_same_bytes() -> None:
    folds = [await engine_for(6_000).compress(CONVERSATIONS["many requests"], force=True) for _ in range(2)]
    assert map_in(folds[0]) == map_in(folds[1])


def what_holds_now(done: Compaction) -> str:
    """The part of the map before its nodes."""
    return map_in(done).partition("\n# n")[0]


async def test_a_map_that_is_read_from_its_text_keeps_what_stands_before_its_parts() -> None:
    said = keepers(40)
    said[10:10] = [user("Never open the big valve, whatever happens."), assistant("Understood.")]
    first = await engine_for(5_000).compress(said, force=True)
    again = await engine_for(5_000).compress([*first.messages, assistant("Pool 0."), *keepers(60)], force=True)
    assert "Never open the big valve" in map_in(first)
    assert "Never open the big valve" in map_in(again)
    assert nodes_in_map(map_in(again))[0].first == 0


async def test_what_a_model_wrote_is_shown_whole_where_there_is_room_and_messages_are_quoted_in_the_rest() -> None:
    async def summarize(source: SummaryInput, budget: int) -> Summary:
        done = f"## Completed actions\n1. Worked on it (m{source.first}).\n\n## Key decisions\n"
        lines = [f"- The keeper chose brine number {number} (m{source.first})." for number in range(budget // 20)]
        return Summary(done + "\n".join(lines), written_by="model", template="model/1")

    engine = LosslessEngine(EngineSetup(int(12_000 / SHARE), summarize=summarize))
    done = await engine.compress(CONVERSATIONS["long results"], force=True)
    shown = {entry.text for part in nodes_in_map(map_in(done)) for entry in Handoff.of_text(part.text).all_entries()}
    for node in done.nodes:
        if node.id in (done.shown_nodes or ()):
            assert {entry.text for entry in Handoff.of_text(node.text).all_entries()} <= shown
    assert "litres of brine" in nodes_in_map(map_in(done))[-1].text
    assert 0.9 * 12_000 <= done.tokens_after <= 12_240


async def test_the_task_that_a_model_names_in_a_part_is_not_the_task_of_the_map() -> None:
    async def summarize(source: SummaryInput, budget: int) -> Summary:
        text = f"## Active task\nRepair the pump of part {source.first} (m{source.first})\n\n## Goal\n- Warm pools\n"
        return Summary(text, written_by="model", template="model/1")

    engine = LosslessEngine(EngineSetup(int(12_000 / SHARE), summarize=summarize))
    done = await engine.compress(CONVERSATIONS["many requests"], force=True)
    assert "Repair the pump" not in what_holds_now(done)
    assert "Which pool is the coldest?" in what_holds_now(done)
    for part in nodes_in_map(map_in(done)):
        assert f"Repair the pump of part {part.first}" in part.text


async def test_without_a_model_the_newest_part_quotes_its_messages() -> None:
    engine = engine_for(6_000)
    folds = await folds_of(engine, CONVERSATIONS["many requests"], step=4)
    first, *_, last = nodes_in_map(map_in(folds[-1]))
    assert ids_in_map(map_in(folds[-1])) == list(folds[-1].shown_nodes or ())
    assert "brine" in last.text
    assert first.covered_tokens > last.covered_tokens
