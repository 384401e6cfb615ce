"""`clew keys create|list|revoke|delete`: the keys of the gateway with their owners and spending.

A key is only shown when it is made: the store has its hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Literal

import click

from clew.cli.console import Console
from clew.cli.options import MODES, BadValue, OneOf, noun, one_or_more, option, store_options, verb
from clew.cli.pages import format_dollars, format_time, json_fields
from clew.cli.store_access import StoreLocation, configured_store
from clew.cli.text import printable
from clew.errors import StoreError, UnknownKey

if TYPE_CHECKING:
    from clew.gateway import HandoffWriter, Mode
    from clew.store import AccessKey, Store

EXAMPLES = """\
A caller sends its key as `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`. What
is recorded with it belongs to OWNER; keys of one owner see the same conversations.

examples:
  clew keys create ann
  clew keys create ci --mode observe --budget 25 --expires 90
  clew keys list
  clew keys revoke k_3f9c2a7b10de
  clew keys delete k_3f9c2a7b10de
"""
CREATE_EPILOG = """\
The key goes to standard output, alone on its line, and is not shown again. With
--budget, the key is refused once that much is spent; running calls are finished.
"""
REVOKE_EPILOG = """\
ID is the one that `clew keys list` shows, or the beginning of it. What was recorded
under the key stays.
"""
DELETE_EPILOG = """\
What was recorded under the key stays; its spending is no longer counted. Once the last key
is deleted, the gateway serves callers with their own credentials again.
"""
FIRST_KEY = (
    "This is the first key: once it exists, a gateway on this store refuses every caller without a key of Clew, and "
    "asks the upstream with its own credential."
)
HANDOFFS = ("model", "built-in")
MAX_DAYS = 36_500
MAX_DOLLARS = 1_000_000
_MICROS = 1_000_000


def parse_dollars(text: str) -> int:
    """An amount in millionths of a dollar."""
    try:
        dollars = Decimal(text.strip().removeprefix("$"))
        micros = int((dollars * _MICROS).to_integral_value(ROUND_DOWN)) if dollars <= MAX_DOLLARS else 0
    except (InvalidOperation, ValueError, OverflowError):
        micros = 0
    if micros <= 0:
        raise BadValue(f"{text!r} is not allowed", f"expects dollars, more than 0 and up to {MAX_DOLLARS:,}")
    return micros


def parse_days(text: str) -> int:
    days = one_or_more(text)
    if days > MAX_DAYS:
        raise BadValue(f"{text!r} is not allowed", f"expects days, up to {MAX_DAYS:,}")
    return days


keys_command = noun("list", EXAMPLES)


@verb(keys_command, "create", "make a key, and show it once", CREATE_EPILOG)
@click.argument("owner", metavar="OWNER")
@option("--mode", "MODE", "observe, spill or compact; else the gateway's", type=OneOf(MODES))
@option("--handoffs", "WRITER", "model or built-in; else as the gateway is set", type=OneOf(HANDOFFS))
@option("--recall", "on|off", "tools for what was folded; else as the gateway is set", type=OneOf(("on", "off")))
@option("--budget", "USD", "how many dollars it may spend", type=parse_dollars)
@option("--expires", "DAYS", "after how many days it ends", type=parse_days)
@click.option("--yes", is_flag=True, help="do not ask before the first key is made")
@store_options
async def create(
    console: Console,
    owner: str,
    mode: Mode | None,
    handoffs: HandoffWriter | None,
    recall: Literal["on", "off"] | None,
    budget: int | None,
    expires: int | None,
    yes: bool,
) -> int:
    # Late, because a database takes longer to import than `--help` should.
    from clew.gateway import hash_key, make_key
    from clew.store import NewKey

    location = configured_store(console)
    if not yes and not await _may_be_first(location, console):
        return 1
    key = make_key()
    until = datetime.now(UTC) + timedelta(days=expires) if expires else None
    async with location.open() as store:
        made = await store.create_key(NewKey(owner, hash_key(key), mode, budget, until, handoffs, recall))

    def draw() -> None:
        console.print(key)
        console.note(printable(f"this is key {made.id} of {made.owner}; it is not shown again"))

    return console.show({"key": key, **key_json(made)}, draw)


@verb(keys_command, "list", "all keys, with what each has spent; not the keys themselves")
@store_options
async def list_keys(console: Console) -> int:
    location = configured_store(console)
    keys = await _all_keys(location)
    fields = {"store": location.label, "keys": [key_json(each) for each in keys]}
    return console.show(fields, lambda: _print_keys(keys, console))


@verb(keys_command, "revoke", "make a key unusable, at once", REVOKE_EPILOG)
@click.argument("wanted", metavar="ID")
@store_options
async def revoke(console: Console, wanted: str) -> int:
    async with configured_store(console).open(f"key {wanted!r}") as store:
        gone = await store.revoke_key((await _find(store, wanted)).id)
    return console.show(key_json(gone), lambda: console.print(printable(f"{gone.id} of {gone.owner} is revoked.")))


@verb(keys_command, "delete", "remove a key, revoked or not", DELETE_EPILOG)
@click.argument("wanted", metavar="ID")
@store_options
async def delete(console: Console, wanted: str) -> int:
    async with configured_store(console).open(f"key {wanted!r}") as store:
        gone = await store.delete_key((await _find(store, wanted)).id)
    fields = {**key_json(gone), "state": "deleted"}
    return console.show(fields, lambda: console.print(printable(f"{gone.id} of {gone.owner} is deleted.")))


async def _may_be_first(location: StoreLocation, console: Console) -> bool:
    """Whether a key may be made: the first one needs a confirmation at a terminal, and prints a warning elsewhere."""
    if await _all_keys(location):
        return True
    console.note(FIRST_KEY)
    return not console.is_typed_at or console.confirm("Make it? [y/N] ")


async def _all_keys(location: StoreLocation) -> list[AccessKey]:
    if not location.exists:
        return []
    async with location.open() as store:
        return await store.list_keys()


def _print_keys(keys: Sequence[AccessKey], console: Console) -> None:
    if not keys:
        console.say("There are no keys; `clew keys create OWNER` makes one.")
        return
    rows = [("key", "state", "spent", "mode", "expires", "used", "owner"), *(_row(each) for each in keys)]
    first, *lines = console.headed_table(rows, "<<><<<<", console.width)
    console.print(first)
    for each, line in zip(keys, lines, strict=True):
        console.print(line if key_state(each) == "valid" else console.style(line, "dim"))


def _row(key: AccessKey) -> tuple[str, ...]:
    budget = "" if key.budget_micros is None else f" of {format_dollars(key.budget_micros / _MICROS)}"
    return (
        key.id,
        key_state(key).replace("_", " "),
        format_dollars(key.spent_micros / _MICROS) + budget,
        key.mode or "-",
        "-" if key.expires is None else format_time(key.expires)[: len("2026-03-01")],
        "never" if key.used is None else format_time(key.used),
        printable(key.owner),
    )


def key_state(key: AccessKey) -> str:
    from clew.gateway import state_of_key

    return state_of_key(key, datetime.now(UTC))


def key_json(key: AccessKey) -> dict[str, Any]:
    """A key as JSON."""
    return {
        **json_fields(key, "id", "owner"),
        "state": key_state(key),
        **json_fields(key, "mode", "handoffs", "recall"),
        "budget_usd": None if key.budget_micros is None else key.budget_micros / _MICROS,
        "spent_usd": key.spent_micros / _MICROS,
        **json_fields(key, "created", "expires", "revoked", "used"),
    }


async def _find(store: Store, wanted: str) -> AccessKey:
    """The key with this id, or the unique beginning of one."""
    found = [key for key in await store.list_keys() if wanted and key.id.startswith(wanted)]
    if not found:
        raise UnknownKey(wanted)
    if len(found) > 1:
        raise StoreError(f"{wanted!r} could be {', '.join(key.id for key in found[:5])}", remedy="give more of the id")
    return found[0]
