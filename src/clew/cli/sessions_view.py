"""How `clew sessions list` and `show` look, and the same as JSON. Decides nothing but layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from clew.cli.amounts import cost, counted, percent, short
from clew.cli.moments import in_json, shown
from clew.cli.output import Align, Console, clipped, columns, padded, printable, table
from clew.cli.session_lookup import Stretch, short_ids
from clew.messages import Message, arguments_of_call, calls_of, images_of, name_of_call, text_of
from clew.store import Compaction, Session, StoredMessage, UsageTotal

MARGIN = "  "
WIDE_ENOUGH_FOR_MODELS = 100
COMPACTIONS_SHOWN = 4
LONGEST_LINE = 400
LONGEST_MODEL = 24
FULL_ARGUMENTS = 2_000


@dataclass(frozen=True, slots=True)
class Listed:
    """A session on the list."""

    session: Session
    stretch: Stretch
    compactions: int
    """How many lie between it and the beginning of its conversation."""
    opening: str


@dataclass(frozen=True, slots=True)
class Line:
    """A message to show, and where it stands."""

    message: Message
    number: int | None
    """None where a compaction wrote it for no single message."""
    is_written: bool
    row: StoredMessage | None


@dataclass(frozen=True, slots=True)
class Shown:
    """All that `clew sessions show` has to say."""

    session: Session
    chain: tuple[Session, ...]
    stretch: Stretch
    in_view: int
    compactions: tuple[Compaction, ...]
    children: tuple[Session, ...]
    system: str | None
    calls: UsageTotal
    auxiliary: UsageTotal
    is_view: bool
    lines: tuple[Line, ...]

    @property
    def total(self) -> int:
        """Of the messages that could be shown."""
        return self.in_view if self.is_view else self.stretch.stop


# -- list --------------------------------------------------------------------------------------------------------------


def say_list(where: str, listed: Sequence[Listed], ids: dict[str, str], more: bool, console: Console) -> None:
    """The list for people."""
    if not listed:
        console.say(f"There are no sessions in {printable(where)}.")
        return
    wide = console.width >= WIDE_ENOUGH_FOR_MODELS
    head = ("session", "updated", "messages", "folds", "from", *(("model",) if wide else ()), "about")
    rows = [head] + [_list_row(each, ids, wide) for each in listed]
    aligns: list[Align] = ["<", "<", ">", ">", "<", *(["<"] if wide else []), "<"]  # type: ignore[list-item]
    first, *lines = table(rows, aligns, console.width)
    console.say(console.paint(first, "dim"))
    for each, line in zip(listed, lines, strict=True):
        width = len(ids[each.session.id])
        console.say(console.paint(line[:width], "cyan") + line[width:])
    if more:
        console.note(printable(f"there are more: --limit N, or --before {ids[listed[-1].session.id]}"))


def list_json(where: str, listed: Sequence[Listed], more: bool) -> dict[str, Any]:
    sessions = [
        {
            **session_json(each.session),
            "messages": each.stretch.stop,
            "own_messages": each.stretch.count,
            "compactions": each.compactions,
            "updated": in_json(_updated(each)),
            "opening": each.opening,
        }
        for each in listed
    ]
    return {"store": where, "sessions": sessions, "more": more}


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
        "created": in_json(session.created),
        "ended": in_json(session.ended),
        "end_reason": session.end_reason,
    }


def _list_row(each: Listed, ids: dict[str, str], wide: bool) -> tuple[str, ...]:
    session = each.session
    about = f"{session.kind}: " if session.kind in ("branch", "subagent") else ""
    about += session.title or each.opening or "(empty)"
    model = (clipped(printable(session.model or "-"), LONGEST_MODEL),) if wide else ()
    return (
        printable(ids[session.id]),
        shown(_updated(each)) if wide else shown(_updated(each))[: len("2026-03-01")],
        f"{each.stretch.stop:,}",
        f"{each.compactions:,}" if each.compactions else "-",
        clipped(printable(session.source), 12),
        *model,
        printable(about),
    )


def _updated(each: Listed) -> Any:
    return each.stretch.newest.at if each.stretch.newest else each.session.created


# -- show --------------------------------------------------------------------------------------------------------------


def say_shown(them: Shown, console: Console, *, full: bool) -> None:
    """One session for people: blocks with a blank line between them."""
    blocks = [_title(them, console), _facts(them, console)]
    blocks.append(_whole(them, console) if full else _lines(them, console))
    for number, block in enumerate(blocks):
        if number:
            console.say()
        for line in block:
            console.say((MARGIN + line).rstrip())


def shown_json(them: Shown) -> dict[str, Any]:
    return {
        "session": session_json(them.session),
        "chain": [session.id for session in them.chain],
        "messages_total": them.stretch.stop,
        "messages_in_view": them.in_view,
        "system": them.system,
        "compactions": [compaction_json(each) for each in them.compactions],
        "children": [session_json(child) for child in them.children],
        "usage": usage_json(them.calls),
        "auxiliary_usage": usage_json(them.auxiliary),
        "shown": "view" if them.is_view else "history",
        "messages": [_line_json(line) for line in them.lines],
    }


def usage_json(total: UsageTotal) -> dict[str, Any]:
    """Calls added up, for programs; `cost_usd` is that of the calls whose price is known, None if there are none."""
    used = total.usage
    known = total.calls - total.calls_of_unknown_cost
    return {
        "calls": total.calls,
        "prompt_tokens": used.prompt_tokens,
        "input_tokens": used.input_tokens,
        "cache_read_tokens": used.cache_read_tokens,
        "cache_write_tokens": used.cache_write_tokens,
        "output_tokens": used.output_tokens,
        "reasoning_tokens": used.reasoning_tokens,
        "cost_usd": total.cost_micros / 1_000_000 if known else None,
        "calls_of_unknown_cost": total.calls_of_unknown_cost,
    }


def compaction_json(each: Compaction) -> dict[str, Any]:
    entry = each.entry
    return {
        "id": each.id,
        "session": each.session,
        "at": in_json(each.at),
        "in_effect": each.is_in_effect,
        "tokens_before": entry.tokens_before,
        "tokens_after": entry.tokens_after,
        "replaced": [[rows.start, rows.stop] for rows in entry.replaced],
        "engine": entry.engine,
        "written_by": entry.written_by,
        "focus_topic": entry.focus_topic,
        "warnings": list(entry.warnings),
    }


def folded(each: Compaction) -> str:
    """Which messages the handoff stands for: `m2-m142`; what was only shortened is not among them."""
    told = each.entry.details.get("replaced")
    if isinstance(told, list) and len(told) == 2 and told[0] < told[1]:
        first, last = told[0], told[1] - 1
    else:
        gaps = [rows for rows in each.entry.replaced if len(rows)]
        if not gaps:
            return "no message"
        first, last = gaps[0].start, gaps[-1].stop - 1
    return f"m{first}" if first == last else f"m{first}-m{last}"


def sizes(each: Compaction, console: Console) -> str:
    arrow = "→" if console.unicode else "->"
    return f"{each.entry.tokens_before:,} {arrow} {each.entry.tokens_after:,} tokens"


def said(message: Message) -> str:
    """What a message says, on one line: its text, or what it calls."""
    words = " ".join(printable(text_of(message)[:LONGEST_LINE]).split())
    if calls := calls_of(message):
        called = ", ".join(_call(call) for call in calls)
        return f"{words}  {called}" if words else called
    if not words and images_of(message):
        return "(picture)"
    return words or "(nothing)"


def _call(call: Any) -> str:
    values = (" ".join(printable(str(value)[:LONGEST_LINE]).split()) for value in arguments_of_call(call).values())
    return f"{printable(name_of_call(call))}({', '.join(values)})"


def _title(them: Shown, console: Console) -> Iterator[str]:
    session = them.session
    dot = " · " if console.unicode else " - "
    title = session.title or next((said(it.message) for it in them.lines if it.message.get("role") == "user"), "")
    yield console.paint(clipped(printable(title or "(no title)"), console.width - 4), "bold")
    facts = (session.id, session.kind, session.source, session.model or "no model named")
    yield console.paint(clipped(printable(dot.join(facts)), console.width - 4), "dim")


def _facts(them: Shown, console: Console) -> Iterator[str]:
    for name, fact in _all_facts(them, console):
        first, *more = wrap(printable(fact), console.width - 17) or [""]
        yield f"{console.paint(padded(name, 11), 'dim')}  {first}"
        yield from (f"{'':11}  {line}" for line in more)


def _all_facts(them: Shown, console: Console) -> Iterator[tuple[str, str]]:
    session = them.session
    end = "" if session.ended is None else f", ended {shown(session.ended)} ({session.end_reason})"
    yield "started", shown(session.created) + end
    newest = f", the newest of {shown(them.stretch.newest.at)}" if them.stretch.newest else ""
    yield "messages", f"{them.stretch.stop:,} in the history, {them.in_view:,} in view{newest}"
    if len(them.chain) > 1:
        arrow = " → " if console.unicode else " -> "
        ids = short_ids(each.id for each in them.chain)
        told = [ids[each.id] + (" (this)" if each.id == session.id else "") for each in them.chain]
        yield "chain", arrow.join(told if len(told) <= 6 else [*told[:2], "...", *told[-3:]])
    hidden = len(them.compactions) - COMPACTIONS_SHOWN
    for number, each in enumerate(them.compactions[-COMPACTIONS_SHOWN:]):
        state = "" if each.is_in_effect else ", undone"
        earlier = f" (and {hidden:,} before it)" if hidden > 0 and not number else ""
        what = f"{shown(each.at)}: {folded(each)} folded, {sizes(each, console)}{state}{earlier}"
        yield "" if number else "compactions", what
    for number, child in enumerate(them.children):
        title = f" {child.title}" if child.title and child.title != session.title else ""
        at = f" at m{child.first_seq}" if child.kind == "branch" else ""
        yield "" if number else "children", f"{child.id} {child.kind}{at}{title}"
    yield "usage", _spent(them)


def _spent(them: Shown) -> str:
    total, aside = them.calls, them.auxiliary
    if not total.calls and not aside.calls:
        return "no calls recorded"
    prompt = total.usage.prompt_tokens
    words = (
        f"{counted(total.calls, 'call')}, {short(prompt)} prompt tokens"
        f" ({percent(total.usage.cache_read_tokens, prompt)} cached), {short(total.usage.output_tokens)} output, "
        f"cost {cost(total.cost_micros, total.calls, total.calls_of_unknown_cost)}"
    )
    if aside.calls:
        paid = cost(aside.cost_micros, aside.calls, aside.calls_of_unknown_cost)
        words += f"; auxiliary {counted(aside.calls, 'call')}, {paid}"
    return words


def _heading(them: Shown, console: Console) -> str:
    where = "what the model sees" if them.is_view else "the history"
    if not them.lines:
        return console.paint(f"{where} is empty", "bold")
    some = "all of" if len(them.lines) == them.total else f"the last {len(them.lines):,} of {them.total:,} messages of"
    hint = "" if len(them.lines) == them.total else "  --all, --last N, --full"
    return console.paint(f"{some} {where}", "bold") + console.paint(hint, "dim")


def _lines(them: Shown, console: Console) -> Iterator[str]:
    yield _heading(them, console)
    rows = [
        (
            _number(line),
            str(line.message.get("role")),
            clipped(printable(line.row.tool or "") if line.row else "", 16),
            "written" if line.is_written else shown(line.row.at)[5:] if line.row else "",
            said(line.message),
        )
        for line in them.lines
    ]
    colors = {"user": "green", "assistant": "yellow", "tool": "magenta", "system": "blue"}
    for line, text in zip(them.lines, table(rows, (">", "<", "<", "<", "<"), console.width - 4), strict=True):
        role = str(line.message.get("role"))
        yield text.replace(role, console.paint(role, colors[role]), 1) if role in colors else text


def _whole(them: Shown, console: Console) -> Iterator[str]:
    yield _heading(them, console)
    rule = "─" if console.unicode else "-"
    for line in them.lines:
        tool = f" {printable(line.row.tool)}" if line.row and line.row.tool else ""
        when = "written by a compaction" if line.is_written else shown(line.row.at) if line.row else ""
        head = f"{_number(line)} {printable(str(line.message.get('role')))}{tool}  {when} "
        yield console.paint(head + rule * max(0, console.width - 4 - columns(head)), "cyan")
        for text in text_of(line.message).splitlines():
            yield printable(text)
        for call in calls_of(line.message):
            arguments = ", ".join(f"{name}={value!r}" for name, value in arguments_of_call(call).items())
            yield printable(f"> {name_of_call(call)}({clipped(arguments, FULL_ARGUMENTS)})")


def _number(line: Line) -> str:
    return "-" if line.number is None else f"m{line.number}"


def _line_json(line: Line) -> dict[str, Any]:
    return {
        "number": line.number,
        "written": line.is_written,
        "at": in_json(line.row.at) if line.row and not line.is_written else None,
        "tool": line.row.tool if line.row else None,
        "session": line.row.session if line.row else None,
        "message": line.message,
    }
