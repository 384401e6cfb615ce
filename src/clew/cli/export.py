"""`clew export SESSION` (also `clew sessions export`): a conversation as a file that other programs read.

The whole history by default, page by page; with `--view`, what the model sees.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from clew.cli.console import Console, json_text, private_file
from clew.cli.options import OneOf, command, complete_files, option, session_argument, set_option
from clew.cli.pages import plural
from clew.cli.store_access import configured_store, damage_notes, find_session, run_with_store
from clew.cli.text import printable
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.messages import Message
    from clew.store import Session, Store, StoredMessage

EXAMPLES = """\
SESSION is an id, the beginning (s_4f1 or 4f1) or the end of one, or a title.

shapes (--as):
  chat        one JSON object with model and messages, as OpenAI chat wants it (default)
  jsonl       one chat message a line
  anthropic   the fields of an Anthropic request: system, messages
  responses   the fields of an OpenAI Responses request: instructions, input

The whole history is written, compacted messages included; --view writes what the
model sees now. `clew compress` and `clew import` read all of these. What was kept is
written as it is; --redact puts placeholders for secrets. A file can be read by its
owner alone.

examples:
  clew export 4f1c > history.json
  clew export 4f1c --view --as anthropic --output request.json
  clew export 4f1c --as jsonl | gzip > history.jsonl.gz
  clew export 4f1c --redact --output to-show.json
"""
SHAPES = ("chat", "jsonl", "anthropic", "responses", "openai_chat")


@command(EXAMPLES)
@session_argument
@option("--as shape", "SHAPE", "chat, jsonl, anthropic, responses", type=OneOf(SHAPES), default="chat")
@click.option("--view", is_flag=True, help="what the model sees, not the whole history")
@click.option("--redact", is_flag=True, help="replace passwords, keys and tokens by placeholders")
@option("--output", "FILE", "write here; - is standard output (default)", complete_files, default="-")
@click.option("--json", "as_json", is_flag=True, help="with --output FILE: say as JSON what was written")
@set_option
def export_command(
    console: Console,
    session: str,
    shape: str,
    view: bool,
    redact: bool,
    output: str,
    as_json: bool,
    flags: Sequence[str],
) -> int:
    if output != "-" and Path(output).is_dir():
        raise InvalidArgument(f"{output} is a folder", remedy="name a file in it")
    found, count = run_with_store(
        configured_store(flags, console),
        lambda store: _export(store, session, shape, output, console, as_view=view, redacts=redact),
        named=f"session {session!r}",
    )
    if output == "-":
        return 0
    written = {"session": found.id, "output": output, "messages": count, "shape": shape, "view": view}
    what = "the view" if view else "the whole history"
    line = f"{what} of {found.id}, {plural(count, 'message')}, is in {output}"
    return console.show(written, as_json, lambda: console.note(printable(line)))


async def _export(
    store: Store, name: str, shape: str, output: str, console: Console, *, as_view: bool, redacts: bool
) -> tuple[Session, int]:
    from clew.redact import redact_messages, redact_text
    from clew.store import export_in_shape, history_rows

    session = await find_session(store, name)
    system = await store.system_prompt(session.id, keep_damaged=True)
    if redacts and system is not None:
        system = redact_text(system)
    if shape == "jsonl" and not as_view:
        with _target(output, console) as out:
            rows_read = _with_damage_noted(history_rows(store, session.id), console)
            return session, await _write_lines(rows_read, system, out, redacts=redacts)
    if as_view:
        messages: list[Message] = list((await store.view(session.id, keep_damaged=True)).messages)
        rows: list[StoredMessage] = []
    else:
        rows = [row async for row in history_rows(store, session.id)]
        messages = [row.message for row in rows]
        console.notes(damage_notes(rows))
    if redacts:
        # What a wire wrote is made anew from the redacted messages.
        messages, rows = redact_messages(messages), []
    wire = export_in_shape(shape, session.model, system, messages, rows)
    with _target(output, console) as out:
        if shape == "jsonl":
            out.writelines(f"{json_text(message, out)}\n" for message in wire)
        else:
            out.write(f"{json_text(wire, out, indent=1)}\n")
    return session, len(messages)


async def _with_damage_noted(rows: AsyncIterator[StoredMessage], console: Console) -> AsyncIterator[StoredMessage]:
    """The same rows, with a note about one that cannot be read."""
    async for row in rows:
        console.notes(damage_notes([row]))
        yield row


async def _write_lines(rows: AsyncIterator[StoredMessage], system: str | None, out: TextIO, *, redacts: bool) -> int:
    """One message a line, as it is read, so that a long history is never held whole."""
    from clew.redact import redact_messages
    from clew.store import system_message

    count = 0
    async for row in rows:
        message = redact_messages([row.message])[0] if redacts else row.message
        if not count:
            out.writelines(f"{json_text(each, out)}\n" for each in system_message(system, [message]))
        out.write(f"{json_text(message, out)}\n")
        count += 1
    return count


@contextmanager
def _target(name: str, console: Console) -> Iterator[TextIO]:
    """Where the result goes; a file can only be read by its owner, as the database."""
    if name == "-":
        yield console.out
        return
    with private_file(name) as out:
        yield out
