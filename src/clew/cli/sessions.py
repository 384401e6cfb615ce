"""`clew sessions list|show|tree|...`: stored sessions; and `/sessions`, `/resume`, `/new` and `/tree` in a chat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from clew.cli.console import Console
from clew.cli.export import export_command
from clew.cli.options import (
    STATE_KINDS,
    OneOf,
    complete_sessions,
    message_number,
    noun,
    one_or_more,
    option,
    parse_count,
    session_argument,
    store_options,
    verb,
)
from clew.cli.pages import format_time, iso_time, json_fields, message_range, plural, table_lines, writer_name
from clew.cli.store_access import (
    NO_LIMIT,
    SessionRange,
    all_session_ids,
    configured_store,
    damage_notes,
    find_session,
    session_range,
    short_ids,
    stored_session,
)
from clew.cli.text import clip, display_width, printable, printable_line, whole_facts, wrap
from clew.cli.usage import calls_text, usage_json
from clew.errors import InvalidArgument, StoreError
from clew.messages import Message, arguments_of_call, calls_of, images_of, name_of_call, text_of

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.store import CommittedCompaction, Session, Store, StoredMessage, UsageTotal
    from clew.turn import Conversation

NAMES_EPILOG = """\
SESSION is an id, the beginning (s_4f1 or 4f1) or the end of one, or a title.
"""
EXAMPLES = (
    NAMES_EPILOG
    + """
examples:
  clew sessions list
  clew sessions show 4f1c --view
  clew sessions tree "Rota for the bakery"
  clew sessions state 4f1c --at m120
  clew sessions undo 4f1c
  clew sessions export 4f1c --as anthropic --output request.json
"""
)
LIST_LIMIT = 20
FIRST_ROWS = 3
MIN_WIDTH_FOR_MODEL = 100
MAX_COMPACTIONS = 4
MAX_PREVIEW_CHARS = 400
MAX_MODEL_WIDTH = 24
MAX_ARGUMENT_CHARS = 2_000
MAX_DEPTH = 30
"""The depth to which branches of branches are drawn."""
INDENT = 3


sessions_command = noun("list", EXAMPLES)


@verb(sessions_command, "list", "the conversations, newest first")
@option("--limit", "N", "how many (default 20)", type=one_or_more, default=str(LIST_LIMIT))
@option("--before", "SESSION", "continue after this one", complete_sessions)
@click.option("--all", "every", is_flag=True, help="also the sessions that ended in a compaction")
@store_options
async def list_sessions(console: Console, limit: int, before: str | None, every: bool) -> int:
    location = configured_store(console)
    if not location.exists and not before:
        return console.show(list_json(location.label, [], False), lambda: console.print(location.empty_message))
    async with location.open(f"session {before!r}") as store:
        start = (await find_session(store, before)).id if before else None
        page = await store.list_sessions(limit=limit + 1, before=start, only_tips=not every)
        items = [await list_item(store, session) for session in page[:limit]]
        ids = short_ids((it.session.id for it in items), await all_session_ids(store))

    def draw() -> None:
        if not items:
            console.print(f"There are no sessions in {printable(location.label)}.")
            return
        console.print_all(session_table(items, ids, console, console.width))
        if len(page) > limit:
            console.note(printable(f"there are more: --limit N, or --before {ids[items[-1].session.id]}"))

    return console.show(list_json(location.label, items, len(page) > limit), draw)


@verb(
    sessions_command,
    "show",
    "one session: its chain, its compactions, its messages",
    NAMES_EPILOG,
    exclusive=("last", "every"),
)
@session_argument
@click.option("--view", is_flag=True, help="what the model sees, not the whole history")
@option("--last", "N", "how many messages (default 10)", type=one_or_more, default="10")
@click.option("--all", "every", is_flag=True, help="every message")
@click.option("--full", is_flag=True, help="each message whole, not one line of it")
@store_options
async def show(console: Console, session: str, view: bool, last: int, every: bool, full: bool) -> int:
    async with stored_session(console, session) as (store, found):
        details = await _read_details(store, found, view, None if every else last)
    console.show(details_json(details), lambda: print_details(details, console, full=full))
    console.notes(damage_notes(row for each in details.messages if (row := each.row) is not None))
    return 0


@verb(sessions_command, "tree", "the chain of continuations, with its branches")
@click.argument("session", metavar="SESSION", required=False, shell_complete=complete_sessions)
@option("--limit", "N", "how many trees (default 20)", type=one_or_more, default=str(LIST_LIMIT))
@click.option("--nodes", is_flag=True, help="with the map of SESSION, part by part")
@store_options
async def tree(console: Console, session: str | None, limit: int, nodes: bool) -> int:
    from clew.cli.maps import map_json, print_map, read_map

    if nodes and not session:
        remedy = "name it: clew sessions tree SESSION --nodes"
        raise InvalidArgument("--nodes draws the map of one conversation", remedy=remedy)
    location = configured_store(console)
    if not location.exists and not session:
        return console.show(SessionForest((), 0).as_json(), lambda: console.print(location.empty_message))
    async with location.open(f"session {session!r}") as store:
        found = await find_session(store, session) if session else None
        forest, fields = await read_trees(store, found, limit), {}
        if nodes and found is not None:
            tip = await store.get_compression_tip(found.id)
            page = await read_map(store, tip, (await store.view(tip, keep_damaged=True)).next_seq)
            fields["map"] = map_json(page)

    def draw() -> None:
        print_trees(forest, console)
        if nodes:
            console.print()
            print_map(page, console, "--json has the parts of parts, and who wrote each")

    return console.show({**forest.as_json(), **fields}, draw)


@verb(sessions_command, "state", "files, tests, settings, rules, tasks: values now, or at a message", NAMES_EPILOG)
@session_argument
@option("--at", "MESSAGE", "as it was after this message: m120", type=message_number)
@option("--kind", "KIND", f"only these: {', '.join(STATE_KINDS)}", type=OneOf(STATE_KINDS))
@click.option("--all", "every", is_flag=True, help="not only the newest of each kind")
@store_options
async def state(console: Console, session: str, at: int | None, kind: str | None, every: bool) -> int:
    from clew.cli.state import kind_named, print_state, read_state_page, state_json

    async with stored_session(console, session) as (store, found):
        chosen = kind_named(kind) if kind else None
        page = await read_state_page(store, found.id, at=at, kind=chosen, whole=every or console.as_json)
    return console.show(state_json(page), lambda: print_state(page, console, "--all, or --kind files"))


export_command.short_help = "write a conversation to a file, for other programs"
sessions_command.add_command(export_command, "export")


@verb(sessions_command, "rename", "give a conversation a title", NAMES_EPILOG)
@session_argument
@click.argument("title", metavar="TITLE", required=False)
@click.option("--none", is_flag=True, help="remove the title")
@store_options
async def rename(console: Console, session: str, title: str | None, none: bool) -> int:
    if (title is None) == (not none):
        raise InvalidArgument("sessions rename: TITLE is missing", remedy="give one, or --none to remove the title")
    if title is not None and not title.strip():
        raise InvalidArgument("an empty title is none", remedy="give a title, or --none to remove it")
    async with stored_session(console, session) as (store, found):
        # The whole chain: it is displayed as one conversation with one title.
        for each in await store.sessions_of(found.conversation):
            await store.rename(each.id, title)
        now = await store.session(found.id)
    words = f"is now called {now.title!r}" if now.title else "has no title any more"
    return console.show({"session": session_json(now)}, lambda: console.say(f"{now.id} {words}."))


@verb(sessions_command, "undo", "undo the newest compaction: the former view returns", NAMES_EPILOG)
@session_argument
@store_options
async def undo(console: Console, session: str) -> int:
    async with stored_session(console, session) as (store, found):
        undone = await store.undo(found.id)
        tip = await store.session(await store.get_compression_tip(found.id))
        view = await store.view(tip.id)
    if undone is None:
        raise StoreError(f"no compaction is in effect in {tip.id}: its view is the whole history, nothing was undone")
    is_another = view.base is not None
    again = "; the one before it is in effect, undo again to undo that too" if is_another else ""
    words = (
        f"The compaction of {format_time(undone.at)} ({folded_range(undone)} folded, "
        f"{token_change(undone, console)}) is undone: {tip.id} shows {plural(len(view.messages), 'message')} again, "
        f"later ones included{again}. Nothing was deleted."
    )
    fields = {"session": session_json(tip), "undone": compaction_json(undone), "messages_in_view": len(view.messages)}
    return console.show({**fields, "another_in_effect": is_another}, lambda: console.say(words))


@verb(sessions_command, "branch", "start a new session from the beginning of another", NAMES_EPILOG)
@session_argument
@option("--at", "N", "share the first N messages (default: all)", type=parse_count)
@option("--title", "TITLE", "a title for the branch")
@store_options
async def branch(console: Console, session: str, at: int | None, title: str | None) -> int:
    async with stored_session(console, session) as (store, origin):
        made = await store.branch(origin.id, at)
        if title:
            made = await store.rename(made.id, title)
    shared = f"the first {plural(made.first_seq, 'message')} of" if made.first_seq != 1 else "the first message of"
    words = f"{made.id} shares {shared} {origin.id}; new messages of one are not in the other."
    return console.show({"session": session_json(made), "shared": made.first_seq}, lambda: console.say(words))


@verb(sessions_command, "delete", "remove a whole conversation, for good", NAMES_EPILOG)
@session_argument
@click.option("--yes", is_flag=True, help="do not ask")
@store_options
async def delete(console: Console, session: str, yes: bool) -> int:
    from clew.store import InUse

    if not yes and not console.is_typed_at:
        problem = f"delete removes {session!r} for good and asks first, but there is no terminal to ask at"
        raise InvalidArgument(problem, remedy="add --yes if it is meant")
    async with stored_session(console, session) as (store, found):
        chain = await store.sessions_of(found.conversation)
        own = (await session_range(store, chain[-1], chain)).stop - chain[0].first_seq
        title = f" {found.title!r}" if found.title else ""
        size = f"{plural(own, 'message')} in {plural(len(chain), 'session')}"
        question = f"Delete {found.id}{title} with its whole conversation, {size}, for good? [y/N] "
        if not yes and not console.confirm(question):
            console.note("nothing was deleted")
            return 1
        try:
            count = await store.delete(found.id)
        except InUse as error:
            raise StoreError(str(error), remedy=f"`clew sessions tree {found.id}` shows them") from error
    words = f"{found.id} is deleted: {plural(count, 'message')}, for good. The cost of its calls stays in the totals."
    return console.show({"deleted": session_json(found), "messages": count}, lambda: console.say(words))


async def list_item(store: Store, session: Session) -> SessionListItem:
    """Read the row of a session in a list."""
    family = await store.sessions_of(session.conversation)
    until = next(number for number, it in enumerate(family) if it.id == session.id)
    earlier = {it.id for it in family[: until + 1]}
    # Only a compaction starts another session of a conversation.
    made = await store.compactions(session.id, keep_damaged=True) if until else []
    first = await store.messages(session.id, 0, FIRST_ROWS, keep_damaged=True)
    shown = next((row for row in first if row.message.get("role") == "user"), first[0] if first else None)
    span = await session_range(store, session, family)
    folds = sum(each.is_in_effect and each.session in earlier for each in made)
    return SessionListItem(session, span, folds, message_preview(shown.message) if shown else "")


async def _read_details(store: Store, session: Session, as_view: bool, last: int | None) -> SessionDetails:
    from clew.store import CallFilter

    chain = await store.sessions_of(session.conversation)
    span = await session_range(store, session, chain)
    view = await store.view(session.id, keep_damaged=True)
    if as_view:
        seen = list(zip(view.messages, view.seqs, strict=True))
        first = 0 if last is None else max(0, len(seen) - last)
        rows = {row.seq: row for row in await _rows_at(store, session.id, [at for _, at in seen[first:]])}
        messages = [
            ShownMessage(message, at, index in view.written, rows.get(-1 if at is None else at))
            for index, (message, at) in enumerate(seen)
            if index >= first
        ]
    else:
        first = 0 if last is None else max(0, span.stop - last)
        messages = [
            ShownMessage(row.message, row.seq, False, row)
            for row in await store.messages(session.id, first, span.stop, keep_damaged=True)
        ]
    children = [child for each in chain for child in await store.children_of(each.id)]
    calls = CallFilter(conversation=session.conversation)
    return SessionDetails(
        session=session,
        chain=tuple(chain),
        span=span,
        in_view=len(view.messages),
        compactions=tuple(await store.compactions(session.id, keep_damaged=True)),
        children=tuple(child for child in children if child.kind != "continuation"),
        system=await store.system_prompt(session.id, keep_damaged=True),
        calls=(await store.usage((), calls))[0],
        auxiliary=(await store.usage((), replace(calls, auxiliary=True)))[0],
        is_view=as_view,
        messages=tuple(messages),
    )


async def _rows_at(store: Store, session: str, numbers: list[int | None]) -> list[StoredMessage]:
    """The rows with these numbers, read in contiguous ranges."""
    rows: list[StoredMessage] = []
    wanted = sorted({number for number in numbers if number is not None})
    while wanted:
        stop = next((at for at, number in enumerate(wanted) if number != wanted[0] + at), len(wanted))
        rows += await store.messages(session, wanted[0], wanted[0] + stop, keep_damaged=True)
        wanted = wanted[stop:]
    return rows


@dataclass(frozen=True, slots=True)
class SessionListItem:
    """A row of the list."""

    session: Session
    span: SessionRange
    compactions: int
    """Compactions in effect since the beginning of its conversation."""
    first_message: str


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message with its number and its row in the store."""

    message: Message
    number: int | None
    """None for a message that a compaction wrote."""
    is_written: bool
    row: StoredMessage | None


@dataclass(frozen=True, slots=True)
class SessionDetails:
    """A session in detail."""

    session: Session
    chain: tuple[Session, ...]
    span: SessionRange
    in_view: int
    compactions: tuple[CommittedCompaction, ...]
    children: tuple[Session, ...]
    system: str | None
    calls: UsageTotal
    auxiliary: UsageTotal
    """Calls outside of turns, such as those of the summariser."""
    is_view: bool
    """Whether `messages` are from the view, not from the history."""
    messages: tuple[ShownMessage, ...]

    @property
    def total(self) -> int:
        """The number of messages in the view or the history."""
        return self.in_view if self.is_view else self.span.stop


def list_json(store: str, items: Sequence[SessionListItem], more: bool) -> dict[str, Any]:
    sessions = [
        {
            **session_json(each.session),
            "messages": each.span.stop,
            "own_messages": each.span.count,
            "compactions": each.compactions,
            "updated": iso_time(each.span.updated),
            "opening": each.first_message,
        }
        for each in items
    ]
    return {"store": store, "sessions": sessions, "more": more}


def session_json(session: Session) -> dict[str, Any]:
    """A session as JSON, the same for every command."""
    named = json_fields(session, "id", "title", "kind", "parent_session_id", "conversation")
    rest = json_fields(session, "source", "model", "owner", "created", "ended", "end_reason")
    return {**named, "first_message": session.first_seq, **rest}


def session_table(
    items: Sequence[SessionListItem], ids: Mapping[str, str], console: Console, width: int, here: str | None = None
) -> list[str]:
    """Sessions as a table; with `here`, the session of a chat, rows have numbers for `/resume`."""
    wide, is_numbered = console.width >= MIN_WIDTH_FOR_MODEL, here is not None
    model = ("model",) if wide else ()
    rows: list[tuple[str, ...]] = [("session", "updated", "messages", "folds", "from", *model, "about")]
    for each in items:
        session, updated = each.session, format_time(each.span.updated)
        kind = f"{branch_name(session)}: " if session.kind in ("branch", "subagent") else ""
        rows.append(
            (
                printable(ids[session.id]),
                updated if wide or is_numbered else updated[: len("2026-03-01")],
                f"{each.span.stop:,}",
                f"{each.compactions:,}" if each.compactions else "-",
                clip(printable(session.source), 12),
                *((clip(printable(session.model or "-"), MAX_MODEL_WIDTH),) if wide else ()),
                printable(kind + (session.title or each.first_message or "(empty)")),
            )
        )
    aligns = "<<>><<<"[: len(rows[0])]
    if is_numbered:
        marks = ["", *(f"{'*' if each.session.id == here else ''}{at}" for at, each in enumerate(items, 1))]
        rows = [(f"{mark:>3}  {row[0]}", *row[1:4], row[-1]) for mark, row in zip(marks, rows, strict=True)]
        aligns = "<<>><"
    first, *lines = console.headed_table(rows, aligns, width)
    widths = [len(row[0]) for row in rows[1:]]
    return [first, *(console.style(line[:at], "cyan") + line[at:] for at, line in zip(widths, lines, strict=True))]


def branch_name(session: Session) -> str:
    """`branch at m12`, or the kind of another session."""
    return f"branch at m{session.first_seq}" if session.kind == "branch" else session.kind


def print_details(details: SessionDetails, console: Console, *, full: bool) -> None:
    """Print a session; `full` prints whole messages, not one line of each."""
    messages = _full_messages(details, console) if full else _message_rows(details, console)
    facts = console.fact_lines(_facts_of(details, console), names=11)
    session = details.session
    first = (message_preview(it.message) for it in details.messages if it.message.get("role") == "user")
    about = (session.id, session.kind, session.source, session.model or "no model named")
    title = console.title_lines(session.title or next(first, "") or "(no title)", map(printable, about))
    console.print_blocks([title, facts, messages])


def details_json(details: SessionDetails) -> dict[str, Any]:
    return {
        "session": session_json(details.session),
        "chain": [session.id for session in details.chain],
        "messages_total": details.span.stop,
        "messages_in_view": details.in_view,
        "system": details.system,
        "compactions": [compaction_json(each) for each in details.compactions],
        "children": [session_json(child) for child in details.children],
        "usage": usage_json(details.calls),
        "auxiliary_usage": usage_json(details.auxiliary),
        "shown": "view" if details.is_view else "history",
        "messages": [_message_json(line) for line in details.messages],
    }


def compaction_json(each: CommittedCompaction) -> dict[str, Any]:
    entry = each.entry
    return {
        **json_fields(each, "id", "session", "at"),
        "in_effect": each.is_in_effect,
        **json_fields(entry, "tokens_before", "tokens_after"),
        "replaced": [[rows.start, rows.stop] for rows in entry.replaced],
        **json_fields(entry, "engine", "written_by", "focus_topic", "warnings"),
    }


def folded_range(each: CommittedCompaction) -> str:
    """The messages that the handoff replaced: `m2-m142`; without messages that were only shortened."""
    replaced = each.entry.details.get("replaced")
    if isinstance(replaced, list) and len(replaced) == 2 and replaced[0] < replaced[1]:
        first, last = replaced[0], replaced[1] - 1
    else:
        gaps = [rows for rows in each.entry.replaced if len(rows)]
        if not gaps:
            return "no message"
        first, last = gaps[0].start, gaps[-1].stop - 1
    return message_range([first, last])


def token_change(each: CommittedCompaction, console: Console) -> str:
    arrow = console.sign("→", "->")
    return f"{each.entry.tokens_before:,} {arrow} {each.entry.tokens_after:,} tokens"


def message_preview(message: Message) -> str:
    """The text of a message, or its calls, on one line."""
    text = printable_line(text_of(message)[:MAX_PREVIEW_CHARS])
    if calls := calls_of(message):
        called = ", ".join(_call_preview(call) for call in calls)
        return f"{text}  {called}" if text else called
    if not text and images_of(message):
        return "(picture)"
    return text or "(nothing)"


def _call_preview(call: Any) -> str:
    values = (printable_line(str(value)[:MAX_PREVIEW_CHARS]) for value in arguments_of_call(call).values())
    return f"{printable(name_of_call(call))}({', '.join(values)})"


def _facts_of(details: SessionDetails, console: Console) -> Iterator[tuple[str, str]]:
    session = details.session
    end = "" if session.ended is None else f", ended {format_time(session.ended)} ({session.end_reason})"
    yield "started", format_time(session.created) + end
    newest = f", the newest of {format_time(details.span.newest.at)}" if details.span.newest else ""
    yield "messages", f"{details.span.stop:,} in the history, {details.in_view:,} in view{newest}"
    if len(details.chain) > 1:
        ids = short_ids(each.id for each in details.chain)
        names = [ids[each.id] + (" (this)" if each.id == session.id else "") for each in details.chain]
        yield "chain", console.sign(" → ", " -> ").join(names if len(names) <= 6 else [*names[:2], "...", *names[-3:]])
    hidden = sum(each.is_in_effect for each in details.compactions[:-MAX_COMPACTIONS])
    for number, each in enumerate(details.compactions[-MAX_COMPACTIONS:]):
        state = "" if each.is_in_effect else ", undone"
        earlier = f" (and {hidden:,} before it)" if hidden > 0 and not number else ""
        what = f"{format_time(each.at)}: {folded_range(each)} folded, {token_change(each, console)}{state}{earlier}"
        yield "" if number else "compactions", what
    for number, child in enumerate(details.children):
        title = f" {child.title}" if child.title and child.title != session.title else ""
        yield "" if number else "children", f"{child.id} {branch_name(child)}{title}"
    yield "usage", calls_text(details.calls, details.auxiliary)


def _heading(details: SessionDetails, console: Console) -> str:
    where, count = "what the model sees" if details.is_view else "the history", len(details.messages)
    if not count:
        return console.style(f"{where} is empty", "bold")
    if count == details.total:
        return console.style(f"all of {where}", "bold")
    text, hint = f"the last {count:,} of {details.total:,} messages of {where}", "  --all, --last N, --full"
    fits = len(text) + len(hint) < console.page_width
    return console.style(clip(text, console.page_width), "bold") + (console.style(hint, "dim") if fits else "")


def _message_rows(details: SessionDetails, console: Console) -> Iterator[str]:
    yield _heading(details, console)
    rows = [
        (
            _message_number(line),
            str(line.message.get("role")),
            clip(printable(line.row.tool or "") if line.row else "", 16),
            "written" if line.is_written else format_time(line.row.at)[5:] if line.row else "",
            message_preview(line.message),
        )
        for line in details.messages
    ]
    colors = {"user": "green", "assistant": "yellow", "tool": "magenta", "system": "blue"}
    for line, text in zip(details.messages, table_lines(rows, "><<<<", console.page_width), strict=True):
        role = str(line.message.get("role"))
        yield text.replace(role, console.style(role, colors[role]), 1) if role in colors else text


def _full_messages(details: SessionDetails, console: Console) -> Iterator[str]:
    yield _heading(details, console)
    rule = console.sign("─", "-")
    for line in details.messages:
        tool = f" {printable(line.row.tool)}" if line.row and line.row.tool else ""
        when = "written by a compaction" if line.is_written else format_time(line.row.at) if line.row else ""
        head = f"{_message_number(line)} {printable(str(line.message.get('role')))}{tool}  {when} "
        yield console.style(head + rule * max(0, console.page_width - display_width(head)), "cyan")
        for text in text_of(line.message).splitlines():
            yield printable(text)
        for call in calls_of(line.message):
            arguments = ", ".join(f"{name}={value!r}" for name, value in arguments_of_call(call).items())
            yield printable(f"> {name_of_call(call)}({clip(arguments, MAX_ARGUMENT_CHARS)})")


def _message_number(line: ShownMessage) -> str:
    return "-" if line.number is None else f"m{line.number}"


def _message_json(line: ShownMessage) -> dict[str, Any]:
    return {
        "number": line.number,
        "written": line.is_written,
        "at": iso_time(line.row.at) if line.row and not line.is_written else None,
        "tool": line.row.tool if line.row else None,
        "session": line.row.session if line.row else None,
        "damage": line.row.damage if line.row else None,
        "message": line.message,
    }


@dataclass(frozen=True, slots=True)
class SessionNode:
    """A session of a chain, the compaction before it, and its branches."""

    session: Session
    span: SessionRange
    compaction: CommittedCompaction | None
    children: tuple[SessionChain, ...]


@dataclass(frozen=True, slots=True)
class SessionChain:
    """The sessions of one conversation, oldest first."""

    nodes: tuple[SessionNode, ...]
    first_message: str

    @property
    def title(self) -> str | None:
        return next((node.session.title for node in reversed(self.nodes) if node.session.title), None)

    @property
    def session_ids(self) -> Iterator[str]:
        """Ids of the chain and of its branches."""
        for node in self.nodes:
            yield node.session.id
            for child in node.children:
                yield from child.session_ids

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                **session_json(node.session),
                "messages": node.span.count,
                "compaction": None if node.compaction is None else compaction_json(node.compaction),
                "children": [chain.as_json() for chain in node.children],
            }
            for node in self.nodes
        ]


@dataclass(frozen=True, slots=True)
class SessionForest:
    """Trees, newest first, and the number of older ones."""

    trees: tuple[SessionChain, ...]
    more: int
    all_ids: tuple[str, ...] = ()
    """Ids of every session in the store, so that short ids are unique."""

    def short_ids(self) -> dict[str, str]:
        return short_ids((each for tree in self.trees for each in tree.session_ids), self.all_ids)

    def as_json(self) -> dict[str, Any]:
        return {"trees": [tree.as_json() for tree in self.trees], "more": self.more}


async def read_trees(store: Store, session: Session | None, limit: int) -> SessionForest:
    """Read the tree of a session, or the newest trees."""
    by_id = {each.id: each for each in await store.list_sessions(limit=NO_LIMIT)}
    roots = [each for each in by_id.values() if each.parent_session_id not in by_id]
    if session is not None:
        while session.parent_session_id in by_id:
            session = by_id[str(session.parent_session_id)]
        roots = [session]
    trees = [await _read_chain(store, root.conversation, 0) for root in roots[:limit]]
    return SessionForest(tuple(trees), max(0, len(roots) - limit), tuple(by_id))


async def _read_chain(store: Store, conversation: int, depth: int) -> SessionChain:
    sessions = await store.sessions_of(conversation)
    compactions: dict[str, CommittedCompaction] = {}
    if len(sessions) > 1:
        compactions = {each.session: each for each in await store.compactions(sessions[-1].id, keep_damaged=True)}
    nodes = []
    for session in sessions:
        below = await store.children_of(session.id) if depth < MAX_DEPTH else []
        children = [
            await _read_chain(store, child.conversation, depth + 1)
            for child in below
            if child.conversation != conversation
        ]
        span = await session_range(store, session, sessions)
        nodes.append(SessionNode(session, span, compactions.get(session.id), tuple(children)))
    return SessionChain(tuple(nodes), await first_message(store, sessions[0].id) or "(empty)")


async def first_message(store: Store, session: str) -> str:
    """A preview of the first message of a session; empty without messages."""
    first = await store.messages(session, 0, 1, keep_damaged=True)
    return message_preview(first[0].message) if first else ""


def print_trees(forest: SessionForest, console: Console, here: str = "") -> None:
    """Print trees; `here` is the session of a chat."""
    if not forest.trees:
        console.print("There are no sessions yet.")
    drawing = TreeDrawing(forest.short_ids(), console, here)
    for number, tree in enumerate(forest.trees):
        if number:
            console.print()
        drawing.print(tree)
    if forest.more:
        console.note(f"not shown: {plural(forest.more, 'older tree')}; --limit N shows more, or name a session")


@dataclass(frozen=True, slots=True)
class TreeDrawing:
    """Draws a tree: a chain vertically, with its branches indented."""

    ids: Mapping[str, str]
    console: Console
    here: str

    def print(self, tree: SessionChain) -> None:
        room = self.console.page_width
        self.console.print_lines([self.console.style(clip(printable(tree.title or tree.first_message), room), "bold")])
        self.console.print_lines(self._chain_lines(tree, room))

    def _chain_lines(self, chain: SessionChain, room: int) -> Iterator[str]:
        """The sessions of a chain, each followed by its branches."""
        dot, down, bar, fork, end = (
            ("●", "▼", "│", "├─ ", "└─ ") if self.console.unicode else ("o", "v", "|", "+- ", "+- ")
        )
        last = chain.nodes[-1]
        for number, node in enumerate(chain.nodes):
            for first, text in enumerate(self._compaction_texts(node) if number else ()):
                for row, line in enumerate(wrap(text, room - 2)):
                    yield self.console.style(f"{bar if first or row else down} {line}", "magenta")
            yield f"{dot} {self._session_line(node, node is last and number > 0, room - 2)}"
            for child in node.children:
                is_end = node is last and child is node.children[-1]
                yield bar
                origin = child.nodes[0].session
                title = f": {origin.title}" if origin.title and origin.title != chain.title else ""
                label = clip(printable(f"{branch_name(origin)}{title}"), room - INDENT)
                yield (end if is_end else fork) + self.console.style(label, "bold")
                below = self._chain_lines(child, room - INDENT)
                yield from (f"{' ' if is_end else bar}  {line}" for line in below)
            if node.children and node is not last:
                yield bar

    def _compaction_texts(self, node: SessionNode) -> Iterator[str]:
        """The compaction between a session and its continuation."""
        each = node.compaction
        if each is None:
            yield "continued"
            return
        undone = "" if each.is_in_effect else ", undone"
        yield f"{folded_range(each)} folded, {token_change(each, self.console)}{undone}"
        if writer := each.entry.written_by:
            focus = each.entry.focus_topic
            about = f", focus {printable(focus)}" if focus else ""
            yield f"written by {writer_name(writer)}, {format_time(each.at)}{about}"

    def _session_line(self, node: SessionNode, is_newest: bool, room: int) -> str:
        session, span = node.session, node.span
        facts = [f"{span.numbers or 'empty':<11}", f"{plural(span.count, 'message'):<14}", format_time(span.updated)]
        facts += [fact for fact in ("newest" if is_newest else "", session.source, session.model) if fact]
        mark = self.console.sign("  ◀ here", "  <- here") if session.id == self.here else ""
        name = printable(self.ids[session.id])
        line = whole_facts(map(printable, facts), room - display_width(name) - len(mark) - 2)
        styled_mark = self.console.style(mark, "bold", "green")
        return self.console.style(name, "cyan") + (f"  {line}" if line else "") + styled_mark


# -- in a chat ---------------------------------------------------------------------------------------------------------

MAX_LISTED = 15
MAX_SPOKEN_COLUMNS = 200
MAX_SEARCHED = 500
"""At most so many conversations are searched by their first message."""


async def run_new(state: ChatState, words: str) -> None:
    app, title = state.app, words or None
    conversation = await state.conversation()
    old, was_empty = conversation.session, not conversation.view.next_seq
    if was_empty and title is None:
        state.show_text("This conversation is still empty: it is a fresh one.")
        return
    if was_empty:
        await app.store.rename(old, title)
        state.show_text(f"This conversation is still empty; it is now called {words!r}.")
        return
    name = (await app.store.session(old)).title
    await app.runtime.end(old, "new")
    await _enter(state, await app.new_session(title))
    state.show_text(
        f"A fresh conversation begins{f': {words}' if words else ''}.",
        f"The one before is kept: /resume {old} goes back to it{f': {name}' if name else '.'}",
    )


async def run_resume(state: ChatState, words: str) -> None:
    if not words:
        await run_sessions(state, "")
        return
    store = state.app.store
    found = _listed_session(state, words) or (await find_session(store, words)).id
    conversation = await state.app.runtime.conversation(await store.get_compression_tip(found))
    if conversation is await state.conversation():
        state.show_text("That is the conversation you are in.")
        return
    session = await store.session(conversation.session)
    why_not = await state.app.use_model_of(session.id)
    await _enter(state, conversation.session)
    title = session.title or (await list_item(store, session)).first_message
    facts = list(_resumed_facts(conversation, f"{session.model} ({why_not})" if why_not else None))

    def lines(console: Console) -> Iterator[str]:
        yield console.style(clip(f"back in: {printable(title)}", console.page_width), "bold")
        yield from console.fact_lines(facts)

    state.show_lines(lines)


async def _enter(state: ChatState, session: str) -> None:
    state.session, state.previewed = session, None
    await state.conversation()
    await state.learn_names()


def _resumed_facts(conversation: Conversation, model_before: str | None) -> Iterator[tuple[str, str]]:
    yield "session", conversation.session
    yield "messages", f"{conversation.view.next_seq:,} in the history, {len(conversation.messages):,} in view"
    yield "tokens", f"{conversation.size.tokens:,} of {conversation.window.tokens:,}"
    model = conversation.target.model
    yield "model", f"{model}; before: {model_before}" if model_before else model
    yield from spoken_facts(conversation)


def spoken_facts(conversation: Conversation) -> Iterator[tuple[str, str]]:
    """The newest question and answer, shortened."""
    spoken = [message for message in conversation.messages if message["role"] in ("user", "assistant")]
    for message in spoken[-2:]:
        yield "you" if message["role"] == "user" else "it", clip(message_preview(message), MAX_SPOKEN_COLUMNS)


def _listed_session(state: ChatState, words: str) -> str | None:
    """The session with this number in the last list."""
    number = int(words) if words.isascii() and words.isdigit() and len(words) < 6 else 0
    if not number:
        return None
    if not state.listed:
        raise InvalidArgument("no list has been shown yet", remedy="/resume shows one")
    if number > len(state.listed):
        raise InvalidArgument(
            f"the list has {plural(len(state.listed), 'conversation')}", remedy=f"there is no {number}"
        )
    return state.listed[number - 1]


async def run_sessions(state: ChatState, words: str) -> None:
    """Show a numbered list of conversations, newest first."""
    store = state.app.store
    here = (await state.conversation()).session
    found = await _matching_sessions(state, words)
    items = found[:MAX_LISTED]
    if not items:
        none = "There are no conversations yet but this one."
        missing = f"No conversation is called or begins with {words!r}; /search looks into all of them."
        state.show_text(missing if words else none)
        return
    state.listed = tuple(each.session.id for each in items)
    ids = short_ids(state.listed, await all_session_ids(store))
    await state.learn_names()

    def lines(console: Console) -> Iterator[str]:
        yield from session_table(items, ids, console, console.page_width, here)
        more = "; there are more: /sessions WORDS" if len(found) > MAX_LISTED else ""
        star = "* is here; " if here in state.listed else ""
        yield from console.hint_lines(f"{star}/resume NUMBER continues one{more}")

    state.show_lines(lines)


async def _matching_sessions(state: ChatState, words: str) -> list[SessionListItem]:
    """Conversations with all the words in title, id or first message; up to one more than a list shows."""
    store = state.app.store
    found: list[SessionListItem] = []
    for session in await store.list_sessions(limit=MAX_SEARCHED, only_tips=True):
        first = await first_message(store, session.id)
        about = f"{session.title or ''} {session.id} {first}".casefold()
        matches = all(word in about for word in words.casefold().split())
        if first and matches and session.kind != "subagent":
            found.append(await list_item(store, session))
        if len(found) > MAX_LISTED:
            break
    return found


async def run_tree(state: ChatState, words: str) -> None:
    del words
    here, store = (await state.conversation()).session, state.app.store
    forest = await read_trees(store, await store.session(here), 1)
    state.show_page(lambda console: print_trees(forest, console, here))
