"""A compaction that was prepared, as JSON and back: so that another process can apply exactly what one has shown.

The messages that it was made from are not in it. They are those of the conversation, which only grows: a compaction in
effect and a number say which of them it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from clew.engines import Added, Changed, Compaction, CompactionItem, Kept, Node, Removed, Summarized
from clew.handoff import Handoff
from clew.store import View
from clew.turn.compaction import PreparedCompaction
from clew.turn.view import ConversationView

_ITEMS: Mapping[str, type[CompactionItem]] = {kind.__name__: kind for kind in (Kept, Changed, Added, Removed)}
_AS_THEY_ARE = ("tokens_before", "tokens_after", "state", "records", "written_by", "template")
_TUPLES = ("numbers", "unverified", "warnings")


def prepared_to_plain(prepared: PreparedCompaction) -> dict[str, Any]:
    """What was prepared as JSON."""
    view, done = prepared.view, prepared.compaction
    return {
        "base": view.base,
        "until": view.next_seq,
        "shown": len(view.messages),
        "focus": prepared.focus,
        "engine": prepared.engine,
        "items": list(map(_item_to_plain, done.items)),
        "nodes": list(map(asdict, done.nodes)),
        "handoff": None if done.handoff is None else done.handoff.as_json(),
        "shown_nodes": None if done.shown_nodes is None else list(done.shown_nodes),
        **{name: getattr(done, name) for name in _AS_THEY_ARE},
        **{name: list(getattr(done, name)) for name in _TUPLES},
    }


def prepared_from_plain(plain: Mapping[str, Any], now: ConversationView) -> PreparedCompaction | None:
    """What was prepared, for the view as it is now; None where that is no longer the one that it was made for."""
    shown = plain["shown"]
    if plain["base"] != now.base or shown > len(now.messages) or plain["until"] > now.next_seq:
        return None
    written = frozenset(index for index in now.stored.written if index < shown)
    messages, seqs = tuple(now.messages[:shown]), tuple(now.seqs[:shown])
    view = View(now.session, now.stored.conversation, now.base, plain["until"], messages, seqs, written)
    fields: dict[str, Any] = {name: plain[name] for name in _AS_THEY_ARE}
    fields |= {name: tuple(plain[name]) for name in _TUPLES}
    done = Compaction(
        list(messages),
        tuple(map(_item_from_plain, plain["items"])),
        nodes=tuple(Node(**{**node, "children": tuple(node["children"])}) for node in plain["nodes"]),
        handoff=Handoff.of_json(handoff) if (handoff := plain.get("handoff")) else None,
        shown_nodes=None if plain["shown_nodes"] is None else tuple(plain["shown_nodes"]),
        **fields,
    )
    return PreparedCompaction(view, done, plain["focus"], plain["engine"])


def _item_to_plain(item: CompactionItem) -> dict[str, Any]:
    own = {"kind": type(item).__name__}
    if not isinstance(item, Summarized):
        return own | asdict(item)
    merged = None if item.merged_with is None else _item_to_plain(item.merged_with)
    return own | {
        "message": item.message,
        "covers": list(item.covers),
        "text": item.text,
        "merged_with": merged,
        "node": item.node,
    }


def _item_from_plain(plain: Mapping[str, Any]) -> CompactionItem:
    given = {name: value for name, value in plain.items() if name != "kind"}
    if plain["kind"] != Summarized.__name__:
        return _ITEMS[plain["kind"]](**given)
    merged = None if given["merged_with"] is None else _item_from_plain(given["merged_with"])
    assert merged is None or isinstance(merged, Kept | Changed)
    return Summarized(**{**given, "covers": tuple(given["covers"]), "merged_with": merged})
