"""How sessions, their messages and their compactions look: `clew sessions list` and `show`, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clew.cli.console import Console
from clew.cli.store_access import SessionRange, short_ids
from clew.cli.views.amounts import format_time, iso_time, message_range, plural, short_count
from clew.cli.views.tables import fact_lines, page_width, print_blocks, table_lines
from clew.cli.views.text import Align, clip, display_width, printable, printable_line
from clew.cli.views.usage import auxiliary_text, cached_percent, cost_text, usage_json
from clew.messages import Message, arguments_of_call, calls_of, images_of, name_of_call, text_of
from clew.store import CommittedCompaction, Session, StoredMessage, UsageTotal

MIN_WIDTH_FOR_MODEL = 100
MAX_COMPACTIONS = 4
MAX_PREVIEW_CHARS = 400
MAX_MODEL_WIDTH = 24
MAX_ARGUMENT_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class SessionListItem:
    """A session on the list."""

    session: Session
    span: SessionRange
    compactions: int
    """Since the beginning of its conversation; undone ones do not count."""
    first_message: str


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message with its number and its row in the store."""

    message: Message
    number: int | None
    """None where a compaction wrote it for no single message."""
    is_written: bool
    row: StoredMessage | None


@dataclass(frozen=True, slots=True)
class SessionDetails:
    """All that `clew sessions show` shows."""

    session: Session
    chain: tuple[Session, ...]
    span: SessionRange
    in_view: int
    compactions: tuple[CommittedCompaction, ...]
    children: tuple[Session, ...]
    system: str | None
    calls: UsageTotal
    auxiliary: UsageTotal
    """Of the calls, those that no turn asked for."""
    is_view: bool
    """Whether the messages are those of the view, not of the history."""
    messages: tuple[ShownMessage, ...]

    @property
    def total(self) -> int:
        """How many messages could be shown."""
        return self.in_view if self.is_view else self.span.stop


# -- list --------------------------------------------------------------------------------------------------------------


def print_list(store: str, items: Sequence[SessionListItem], ids: dict[str, str], more: bool, console: Console) -> None:
    """The sessions of a store; `ids` are their short ids."""
    if not items:
        console.print(f"There are no sessions in {printable(store)}.")
        return
    wide = console.width >= MIN_WIDTH_FOR_MODEL
    head = ("session", "updated", "messages", "folds", "from", *(("model",) if wide else ()), "about")
    rows = [head] + [_list_row(each, ids, wide) for each in items]
    aligns: list[Align] = ["<", "<", ">", ">", "<", "<", "<"]
    first, *lines = table_lines(rows, aligns[: len(head)], console.width)
    console.print(console.style(first, "dim"))
    for each, line in zip(items, lines, strict=True):
        width = len(ids[each.session.id])
        console.print(console.style(line[:width], "cyan") + line[width:])
    if more:
        console.note(printable(f"there are more: --limit N, or --before {ids[items[-1].session.id]}"))


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
    """A session for programs, as every command gives it."""
    return {
        "id": session.id,
        "title": session.title,
        "kind": session.kind,
        "parent_session_id": session.parent_session_id,
        "conversation": session.conversation,
        "first_message": session.first_seq,
        "source": session.source,
        "model": session.model,
        "owner": session.owner,
        "created": iso_time(session.created),
        "ended": iso_time(session.ended),
        "end_reason": session.end_reason,
    }


def _list_row(each: SessionListItem, ids: dict[str, str], wide: bool) -> tuple[str, ...]:
    session = each.session
    about = f"{session.kind}: " if session.kind in ("branch", "subagent") else ""
    about += session.title or each.first_message or "(empty)"
    model = (clip(printable(session.model or "-"), MAX_MODEL_WIDTH),) if wide else ()
    return (
        printable(ids[session.id]),
        format_time(each.span.updated) if wide else format_time(each.span.updated)[: len("2026-03-01")],
        f"{each.span.stop:,}",
        f"{each.compactions:,}" if each.compactions else "-",
        clip(printable(session.source), 12),
        *model,
        printable(about),
    )


# -- show --------------------------------------------------------------------------------------------------------------


def print_details(details: SessionDetails, console: Console, *, full: bool) -> None:
    """One session; `full` shows each message whole, not one line of it."""
    messages = _full_messages(details, console) if full else _message_rows(details, console)
    facts = fact_lines(_facts_of(details, console), console, names=11)
    print_blocks([_title_lines(details, console), facts, messages], console)


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
        "id": each.id,
        "session": each.session,
        "at": iso_time(each.at),
        "in_effect": each.is_in_effect,
        "tokens_before": entry.tokens_before,
        "tokens_after": entry.tokens_after,
        "replaced": [[rows.start, rows.stop] for rows in entry.replaced],
        "engine": entry.engine,
        "written_by": entry.written_by,
        "focus_topic": entry.focus_topic,
        "warnings": list(entry.warnings),
    }


def folded_range(each: CommittedCompaction) -> str:
    """Which messages the handoff stands for: `m2-m142`; what was only shortened is not among them."""
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
    """What a message says, on one line: its text, or what it calls."""
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


def _title_lines(details: SessionDetails, console: Console) -> Iterator[str]:
    session = details.session
    dot = console.sign(" · ", " - ")
    title = session.title or next(
        (message_preview(it.message) for it in details.messages if it.message.get("role") == "user"), ""
    )
    yield console.style(clip(printable(title or "(no title)"), page_width(console)), "bold")
    facts = (session.id, session.kind, session.source, session.model or "no model named")
    yield console.style(clip(printable(dot.join(facts)), page_width(console)), "dim")


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
        at = f" at m{child.first_seq}" if child.kind == "branch" else ""
        yield "" if number else "children", f"{child.id} {child.kind}{at}{title}"
    yield "usage", _usage_text(details)


def _usage_text(details: SessionDetails) -> str:
    total, auxiliary = details.calls, details.auxiliary
    if not total.calls:
        return "no calls recorded"
    text = (
        f"{plural(total.calls, 'call')}, {short_count(total.usage.prompt_tokens)} prompt tokens "
        f"({cached_percent(total)} cached), {short_count(total.usage.output_tokens)} output, cost {cost_text(total)}"
    )
    return text + auxiliary_text(auxiliary)


def _heading(details: SessionDetails, console: Console) -> str:
    where = "what the model sees" if details.is_view else "the history"
    if not details.messages:
        return console.style(f"{where} is empty", "bold")
    some = (
        "all of"
        if len(details.messages) == details.total
        else f"the last {len(details.messages):,} of {details.total:,} messages of"
    )
    hint = "" if len(details.messages) == details.total else "  --all, --last N, --full"
    fits = len(some) + len(where) + len(hint) < page_width(console)
    text = clip(f"{some} {where}", page_width(console))
    return console.style(text, "bold") + (console.style(hint, "dim") if fits else "")


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
    for line, text in zip(
        details.messages, table_lines(rows, (">", "<", "<", "<", "<"), page_width(console)), strict=True
    ):
        role = str(line.message.get("role"))
        yield text.replace(role, console.style(role, colors[role]), 1) if role in colors else text


def _full_messages(details: SessionDetails, console: Console) -> Iterator[str]:
    yield _heading(details, console)
    rule = console.sign("─", "-")
    for line in details.messages:
        tool = f" {printable(line.row.tool)}" if line.row and line.row.tool else ""
        when = "written by a compaction" if line.is_written else format_time(line.row.at) if line.row else ""
        head = f"{_message_number(line)} {printable(str(line.message.get('role')))}{tool}  {when} "
        yield console.style(head + rule * max(0, page_width(console) - display_width(head)), "cyan")
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
