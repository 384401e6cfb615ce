"""`clew export SESSION` (also `clew sessions export`): a conversation as a file that other programs read.

The whole history by default, page by page; with `--view`, what the model sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from clew.cli.console import Console, json_text, private_file
from clew.cli.options import FILE, OneOf, command, option, session_argument, set_option
from clew.cli.pages import plural
from clew.cli.store_access import damage_notes, stored_session
from clew.cli.text import printable
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.messages import Message
    from clew.store import Session, Store

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
@option("--output", "FILE", "write here; - is standard output (default)", type=FILE, default="-")
@click.option("--json", "as_json", is_flag=True, help="with --output FILE: say as JSON what was written")
@set_option
async def export_command(console: Console, session: str, shape: str, view: bool, redact: bool, output: str) -> int:
    async with stored_session(console, session) as (store, found):
        if shape == "jsonl" and not view:
            count = await _export_lines(store, found, output, console, redacts=redact)
        else:
            count = await _export_whole(store, found, shape, output, console, as_view=view, redacts=redact)
    if output == "-":
        return 0
    written = {"session": found.id, "output": output, "messages": count, "shape": shape, "view": view}
    what = "the view" if view else "the whole history"
    line = f"{what} of {found.id}, {plural(count, 'message')}, is in {output}"
    return console.show(written, lambda: console.note(printable(line)))


async def _export_lines(store: Store, session: Session, output: str, console: Console, *, redacts: bool) -> int:
    """Write one message a line, without loading the whole history; returns the number of messages."""
    from clew.redact import redact_messages
    from clew.store import history_rows, system_message

    system, count = await _system_prompt(store, session, redacts=redacts), 0
    with _target(output, console) as out:
        async for row in history_rows(store, session.id):
            console.notes(damage_notes([row]))
            message = redact_messages([row.message])[0] if redacts else row.message
            before = [] if count else system_message(system, [message])
            out.writelines(f"{json_text(each, out)}\n" for each in (*before, message))
            count += 1
    return count


async def _export_whole(
    store: Store, session: Session, shape: str, output: str, console: Console, *, as_view: bool, redacts: bool
) -> int:
    """Write a conversation as one value; returns the number of messages."""
    from clew.redact import redact_messages
    from clew.store import export_in_shape, history_rows

    system = await _system_prompt(store, session, redacts=redacts)
    rows = [] if as_view else [row async for row in history_rows(store, session.id)]
    console.notes(damage_notes(rows))
    view = (await store.view(session.id, keep_damaged=True)).messages if as_view else ()
    messages: list[Message] = [*view, *(row.message for row in rows)]
    if redacts:
        # Without rows, the original requests are rebuilt from the redacted messages.
        messages, rows = redact_messages(messages), []
    wire = export_in_shape(shape, session.model, system, messages, rows)
    with _target(output, console) as out:
        if shape == "jsonl":
            out.writelines(f"{json_text(message, out)}\n" for message in wire)
        else:
            out.write(f"{json_text(wire, out, indent=1)}\n")
    return len(messages)


async def _system_prompt(store: Store, session: Session, *, redacts: bool) -> str | None:
    from clew.redact import redact_text

    system = await store.system_prompt(session.id, keep_damaged=True)
    return redact_text(system) if redacts and system is not None else system


@contextmanager
def _target(name: str, console: Console) -> Iterator[TextIO]:
    """Open the target; a file is only readable by its owner, like the database."""
    if name == "-":
        yield console.out
        return
    if Path(name).is_dir():
        raise InvalidArgument(f"{name} is a folder", remedy="name a file in it")
    with private_file(name) as out:
        yield out
