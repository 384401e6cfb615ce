"""`clew export SESSION` (also `clew sessions export`): a conversation as a file that other programs read.

The whole history by default, page by page; with `--view`, what the model sees.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console, json_text, private_file
from clew.cli.store_access import configured_store, run_with_store
from clew.cli.views.amounts import plural
from clew.cli.views.text import printable
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("session", metavar="SESSION", help="an id, the beginning of one, or a title")
    parser.add_argument(
        "--as", dest="shape", choices=SHAPES, default="chat", metavar="SHAPE", help="chat, jsonl, anthropic, responses"
    )
    parser.add_argument("--view", action="store_true", help="what the model sees, not the whole history")
    parser.add_argument("--redact", action="store_true", help="replace passwords, keys and tokens by placeholders")
    parser.add_argument("--output", metavar="FILE", default="-", help="write here; - is standard output (default)")
    parser.add_argument("--json", action="store_true", help="with --output FILE: say as JSON what was written")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.output != "-" and Path(arguments.output).is_dir():
        raise InvalidArgument(f"{arguments.output} is a folder; name a file in it")
    location = configured_store(arguments, console)
    named = f"session {arguments.session!r}"
    session, count = run_with_store(location, lambda store: _export(store, arguments, console), named=named)
    if arguments.output == "-":
        return 0
    if arguments.json:
        written = {"session": session.id, "output": arguments.output, "messages": count, "shape": arguments.shape}
        console.print_json({**written, "view": arguments.view})
    else:
        what = "the view" if arguments.view else "the whole history"
        console.note(printable(f"{what} of {session.id}, {plural(count, 'message')}, is in {arguments.output}"))
    return 0


async def _export(store: Store, arguments: argparse.Namespace, console: Console) -> tuple[Session, int]:
    from clew.cli.store_access import damage_notes, find_session
    from clew.redact import redact_messages, redact_text
    from clew.store import export_in_shape, history_rows

    session = await find_session(store, arguments.session)
    system = await store.system_prompt(session.id, keep_damaged=True)
    if arguments.redact and system is not None:
        system = redact_text(system)
    if arguments.shape == "jsonl" and not arguments.view:
        with _target(arguments.output, console) as out:
            rows_read = _with_damage_noted(history_rows(store, session.id), console)
            return session, await _write_lines(rows_read, system, out, redacts=arguments.redact)
    if arguments.view:
        messages: list[Message] = list((await store.view(session.id, keep_damaged=True)).messages)
        rows: list[StoredMessage] = []
    else:
        rows = [row async for row in history_rows(store, session.id)]
        messages = [row.message for row in rows]
        console.notes(damage_notes(rows))
    if arguments.redact:
        # What a wire wrote is made anew from the redacted messages.
        messages, rows = redact_messages(messages), []
    wire = export_in_shape(arguments.shape, session.model, system, messages, rows)
    with _target(arguments.output, console) as out:
        if arguments.shape == "jsonl":
            out.writelines(f"{json_text(message, out)}\n" for message in wire)
        else:
            out.write(f"{json_text(wire, out, indent=1)}\n")
    return session, len(messages)


async def _with_damage_noted(rows: AsyncIterator[StoredMessage], console: Console) -> AsyncIterator[StoredMessage]:
    """The same rows; of one that cannot be read people are told."""
    from clew.cli.store_access import damage_notes

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
