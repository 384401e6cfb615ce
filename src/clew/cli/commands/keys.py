"""`clew keys create|list|revoke|delete`: the keys of the gateway, whose they are, and what they have spent.

A key is shown when it is made and never again: the store has only its hash.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from clew.cli.arguments import add_store_flags, one_or_more
from clew.cli.console import Console
from clew.cli.store_access import StoreLocation, configured_store, open_location, run_with_store
from clew.cli.views.amounts import format_dollars, format_time, iso_time
from clew.cli.views.tables import table_lines
from clew.cli.views.text import Align, printable, wrap
from clew.errors import StoreError, UnknownKey

if TYPE_CHECKING:
    from clew.store import AccessKey, Store

EXAMPLES = """\
A caller sends its key as `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`. What
is recorded under it belongs to OWNER; keys of one owner see the same conversations.

examples:
  clew keys create ann
  clew keys create ci --mode observe --budget 25 --expires 90
  clew keys list
  clew keys revoke k_3f9c2a7b10de
  clew keys delete k_3f9c2a7b10de
"""
CREATE_EPILOG = """\
The key goes to standard output, alone on its line, and is not shown again. With
--budget, the key is refused once so much was spent; a call that has begun is finished.
"""
REVOKE_EPILOG = """\
ID is the one that `clew keys list` shows, or the beginning of it. What was recorded
under the key stays.
"""
DELETE_EPILOG = """\
What was recorded under the key stays; what it has spent is forgotten. Once the last key
is deleted, the gateway serves callers with their own credentials again.
"""
FIRST_KEY = (
    "This is the first key: once it exists, a gateway on this store refuses every caller without a key of Clew, and "
    "asks the upstream with its own credential."
)
MODES = ("observe", "spill", "compact")
HANDOFFS = ("model", "built-in")
MAX_DAYS = 36_500
MAX_DOLLARS = 1_000_000
_MICROS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(title="what to do", metavar="create|list|revoke|delete", dest="verb", required=True)
    create = verbs.add_parser("create", help="make a key, and show it once", epilog=CREATE_EPILOG)
    create.add_argument("owner", metavar="OWNER", help="who will use it: a name of your choice")
    create.add_argument("--mode", choices=MODES, metavar="MODE", help="observe, spill or compact; else the gateway's")
    create.add_argument(
        "--handoffs", choices=HANDOFFS, metavar="WRITER", help="model or built-in; else as the gateway is set"
    )
    create.add_argument("--budget", type=parse_dollars, metavar="USD", help="how many dollars it may spend")
    create.add_argument("--expires", type=parse_days, metavar="DAYS", help="after how many days it ends")
    listing = verbs.add_parser("list", help="all keys, with what each has spent; not the keys themselves")
    revoke = verbs.add_parser("revoke", help="make a key unusable, at once", epilog=REVOKE_EPILOG)
    revoke.add_argument("id", metavar="ID")
    delete = verbs.add_parser("delete", help="remove a key, revoked or not", epilog=DELETE_EPILOG)
    delete.add_argument("id", metavar="ID")
    create.add_argument("--yes", action="store_true", help="do not ask before the first key is made")
    for each in (create, listing, revoke, delete):
        add_store_flags(each)


def run(arguments: argparse.Namespace, console: Console) -> int:
    location = configured_store(arguments, console)
    verbs = {"create": _create, "list": _list, "revoke": _revoke, "delete": _delete}
    return verbs[arguments.verb](arguments, location, console)


def parse_dollars(text: str) -> int:
    """An amount of money, in millionths of a dollar."""
    try:
        dollars = Decimal(text.strip().removeprefix("$"))
        micros = int((dollars * _MICROS).to_integral_value(ROUND_DOWN)) if dollars <= MAX_DOLLARS else 0
    except (InvalidOperation, ValueError, OverflowError):
        micros = 0
    if micros <= 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; expects dollars, more than 0 and up to {MAX_DOLLARS:,}"
        )
    return micros


def parse_days(text: str) -> int:
    days = one_or_more(text)
    if days > MAX_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; expects days, up to {MAX_DAYS:,}")
    return days


# -- create ------------------------------------------------------------------------------------------------------------


def _create(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    # Late, because a database takes longer to import than `--help` should.
    import asyncio

    from clew.gateway import hash_key, make_key
    from clew.store import NewKey

    if not arguments.yes and not _may_be_first(location, console):
        return 1
    key = make_key()
    expires = datetime.now(UTC) + timedelta(days=arguments.expires) if arguments.expires else None
    new = NewKey(arguments.owner, hash_key(key), arguments.mode, arguments.budget, expires, arguments.handoffs)

    async def create() -> AccessKey:
        async with open_location(location) as store:
            return await store.create_key(new)

    made = asyncio.run(create())
    if arguments.json:
        console.print_json({"key": key, **key_json(made)})
    else:
        console.print(key)
        console.note(printable(f"this is key {made.id} of {made.owner}; it is not shown again"))
    return 0


def _may_be_first(location: StoreLocation, console: Console) -> bool:
    """Whether a key may be made: where it is the first one, a person is asked, and a script is told."""
    if location.exists and run_with_store(location, lambda store: store.list_keys(), named="keys"):
        return True
    console.note(FIRST_KEY)
    if not console.is_typed_at:
        return True
    console.err.write("Make it? [y/N] ")
    console.err.flush()
    return console.read_line().strip().lower() in ("y", "yes")


# -- list --------------------------------------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    keys: list[AccessKey] = []
    if location.exists:
        keys = run_with_store(location, lambda store: store.list_keys(), named="keys")
    if arguments.json:
        console.print_json({"store": location.label, "keys": [key_json(each) for each in keys]})
    elif keys:
        _print_keys(keys, console)
    else:
        for line in wrap("There are no keys; `clew keys create OWNER` makes one.", console.width):
            console.print(line)
    return 0


def _print_keys(keys: Sequence[AccessKey], console: Console) -> None:
    head = ("key", "state", "spent", "mode", "expires", "used", "owner")
    rows = [head, *(_row(each) for each in keys)]
    aligns: list[Align] = ["<", "<", ">", "<", "<", "<", "<"]
    first, *lines = table_lines(rows, aligns, console.width)
    console.print(console.style(first, "dim"))
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
    """What is known of a key, for programs."""
    return {
        "id": key.id,
        "owner": key.owner,
        "state": key_state(key),
        "mode": key.mode,
        "handoffs": key.handoffs,
        "budget_usd": None if key.budget_micros is None else key.budget_micros / _MICROS,
        "spent_usd": key.spent_micros / _MICROS,
        "created": iso_time(key.created),
        "expires": iso_time(key.expires),
        "revoked": iso_time(key.revoked),
        "used": iso_time(key.used),
    }


# -- revoke ------------------------------------------------------------------------------------------------------------


def _revoke(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    async def revoke(store: Store) -> AccessKey:
        return await store.revoke_key((await _find(store, arguments.id)).id)

    revoked = run_with_store(location, revoke, named=f"key {arguments.id!r}")
    if arguments.json:
        console.print_json(key_json(revoked))
    else:
        console.print(printable(f"{revoked.id} of {revoked.owner} is revoked."))
    return 0


def _delete(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    async def delete(store: Store) -> AccessKey:
        return await store.delete_key((await _find(store, arguments.id)).id)

    deleted = run_with_store(location, delete, named=f"key {arguments.id!r}")
    if arguments.json:
        console.print_json({**key_json(deleted), "state": "deleted"})
    else:
        console.print(printable(f"{deleted.id} of {deleted.owner} is deleted."))
    return 0


async def _find(store: Store, wanted: str) -> AccessKey:
    """The key of an id, or of the beginning of one that no other has."""
    found = [key for key in await store.list_keys() if wanted and key.id.startswith(wanted)]
    if not found:
        raise UnknownKey(wanted)
    if len(found) > 1:
        raise StoreError(f"{wanted!r} could be {', '.join(key.id for key in found[:5])}; give more of the id")
    return found[0]
