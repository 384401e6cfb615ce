"""The state of a conversation as a page: `clew sessions state` and `/state` in a chat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clew.cli.console import Console
from clew.cli.options import STATE_KINDS
from clew.cli.pages import format_time, iso_time, plural, table_lines
from clew.cli.text import clip, display_width, fitting_chars, printable_line, whole_facts, wrap
from clew.cli.tui.state import ChatState
from clew.errors import InvalidArgument
from clew.facts import FACT_KINDS, Entity, FactKind
from clew.store import Store
from clew.turn import ConversationState, read_conversation_state

MOST_OF_A_KIND = 8
MOST_ENDED_TASKS = 3
NARROW_WIDTH = 50
MORE_IN_CHAT = "/state files, /state WORDS or /state all"
_AT = re.compile(r"(?:--at[ =]|at )?m(\d{1,9})\b|--at[ =](\d{1,9})\b")
PLURALS: dict[FactKind, str] = dict(zip(FACT_KINDS, STATE_KINDS, strict=True))


@dataclass(frozen=True, slots=True)
class StatePage:
    """The state of a conversation as a page."""

    state: ConversationState
    entities: tuple[Entity, ...]
    number: int | None
    """The message after which this was the state; None without messages."""
    at: datetime | None
    """The time of that message."""
    is_now: bool
    shows_all: bool = False


async def read_state_page(
    store: Store, session: str, *, at: int | None = None, kind: FactKind | None = None, words: str = "", whole: bool
) -> StatePage:
    """Read the state of a conversation, now or after a message."""
    state = await read_conversation_state(store, session)
    last = state.next_number - 1
    if at is not None and at > last:
        raise InvalidArgument(f"m{at} is not there yet: the conversation has m0 to m{last}")
    number = last if at is None else at
    rows = await store.messages(session, number, number + 1, keep_damaged=True) if number >= 0 else []
    found = tuple(state.entities(at=at, kind=kind, words=words))
    shows_all = whole or kind is not None or bool(words)
    return StatePage(state, found, number if rows else None, rows[0].at if rows else None, at is None, shows_all)


def kind_named(word: str) -> FactKind | None:
    """The kind with this name, singular or plural."""
    wanted = word.casefold()
    return next((kind for kind in FACT_KINDS if wanted in (kind, PLURALS[kind], f"{kind}s")), None)


def state_json(page: StatePage) -> dict[str, Any]:
    return {
        "session": page.state.session,
        "message": None if page.number is None else f"m{page.number}",
        "at": iso_time(page.at),
        "entities": [_entity_json(entity) for entity in page.entities],
    }


def _entity_json(entity: Entity) -> dict[str, Any]:
    now = entity.now
    return {
        "kind": entity.kind,
        "name": entity.name,
        "value": entity.value,
        "detail": now.detail,
        "since": f"m{entity.since}",
        "message": f"m{now.number}",
        "before": [
            {"value": fact.value, "detail": fact.detail, "message": f"m{fact.number}"}
            for fact in reversed(entity.facts[:-1])
        ],
    }


def print_state(page: StatePage, console: Console, more: str) -> None:
    """Print the entities by kind; `more` is the hint for omitted ones."""
    if page.number is None or page.at is None:
        console.print("  There are no messages yet.")
        return
    when = f"m{page.number}, {format_time(page.at)}"
    title = f"now, after {when}" if page.is_now else f"after {when}"
    blocks: list[Iterator[str]] = [console.styled_lines(title, "dim")]
    left_out = 0
    for kind in FACT_KINDS:
        some = [entity for entity in page.entities if entity.kind == kind]
        shown = some if page.shows_all else _newest(some)
        left_out += len(some) - len(shown)
        if some:
            blocks.append(_kind_lines(kind, some, shown, console))
    if len(blocks) == 1:
        blocks.append(console.styled_lines("No facts are known."))
    if left_out:
        blocks.append(console.hint_lines(f"{left_out:,} more are not shown: {more}"))
    console.print_blocks(blocks)


def _newest(entities: Sequence[Entity]) -> list[Entity]:
    """The entities that a page has room for: current ones, and a few ended tasks."""
    ended = [entity for entity in entities if entity.is_ended]
    going = [entity for entity in entities if not entity.is_ended][:MOST_OF_A_KIND]
    room = MOST_OF_A_KIND - len(going)
    return [*going, *ended[: min(room, MOST_ENDED_TASKS)]]


def _kind_lines(kind: FactKind, every: Sequence[Entity], shown: Sequence[Entity], console: Console) -> Iterator[str]:
    count = f"  {len(every):,}" if len(every) > len(shown) else ""
    yield console.style(PLURALS[kind], "bold") + console.style(count, "dim")
    width = console.page_width - 2
    rows = [_row(entity) for entity in shown]
    if width < NARROW_WIDTH:
        drawn = [_stacked(row, width) for row in rows]
    else:
        rows = [(*(_clip_start(cell, int(width * 0.45)) for cell in row[:-1]), row[-1]) for row in rows]
        aligns = "<" * len(rows[0])
        drawn = [[line] for line in table_lines(rows, aligns, width)]
    for entity, lines in zip(shown, drawn, strict=True):
        is_bad = kind == "tests" and ("failed" in entity.value or "error" in entity.value)
        styles = ["red"] if is_bad else ["dim"] if entity.is_ended else []
        yield from ("  " + (console.style(line, *styles) if styles else line) for line in lines)


def _stacked(row: Sequence[str], width: int) -> list[str]:
    """A row of a narrow page: the text or the name, with the rest below it."""
    if row[0].startswith("m") and row[0][1:].isdigit():
        *head, said = row
        return [" ".join(head), *(f"  {line}" for line in wrap(clip(said, 2 * (width - 2) - 4), width - 2))]
    name, *rest = row
    below = whole_facts([fact for fact in rest if fact], width - 2)
    return [_clip_start(name, width), f"  {below or clip(rest[0], width - 2)}"]


def _clip_start(text: str, width: int) -> str:
    """Cut to this many columns; a path keeps its end, which identifies it."""
    name, inside, path = text.partition(" in ")
    if inside and "/" not in name and display_width(name) < width // 2:
        return name + inside + _clip_start(path, width - display_width(name + inside))
    if display_width(text) <= width or "/" not in text:
        return clip(text, width)
    return "…" + text[-fitting_chars(text[::-1], width - 1) :]


def _row(entity: Entity) -> tuple[str, ...]:
    now, before = entity.now, entity.before
    name, value = printable_line(entity.name), printable_line(entity.value)
    was = "" if before is None else f"before: {printable_line(before.value)} (m{before.number})"
    detail = printable_line(now.detail)
    match entity.kind:
        case "task":
            return f"m{now.number}", value, f"{name} > {detail}" if detail else name
        case "rule":
            return f"m{entity.since}", f"{name} (replaced {detail})" if entity.is_ended else name
        case "decision":
            return f"m{entity.since}", f"{name} > {detail}" if detail else name
        case "branch":
            return value, f"since m{entity.since}", was
        case "commit":
            return f"{value} {name}", f"m{now.number}", f"{detail}; {was}" if was else detail
        case "file":
            often = f"{value} {plural(entity.times, 'time')}" if entity.times > 1 else value
            return name, often, f"m{now.number}", detail
        case _:
            return name, value, f"m{entity.since}", "; ".join(filter(None, (detail, was)))


async def run_state(state: ChatState, words: str) -> None:
    """Show the state: `/state [kind | words | all] [m120]`."""
    found = _AT.search(words)
    rest = " ".join((words[: found.start()] + words[found.end() :]).split()) if found else words
    at = int(found[1] or found[2]) if found else None
    kind = kind_named(rest)
    session = (await state.conversation()).session
    state.wait_for("reading the conversation")
    page = await read_state_page(
        state.app.store,
        session,
        at=at,
        kind=kind,
        words="" if kind or rest == "all" else rest,
        whole=rest == "all",
    )
    state.show_page(lambda console: print_state(page, console, MORE_IN_CHAT))
