"""The text in whatever a model callable gives back, and whether the writing was cut off.

Knows the replies of the common SDKs, as objects or as JSON. Does not judge the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clew.errors import SummaryFailed

_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"})


@dataclass(frozen=True, slots=True)
class ReplyText:
    text: str
    is_cut: bool


def read_reply(reply: object) -> ReplyText:
    """The text of a reply: a string, `.text`, chat-completions `choices`, Anthropic's or LangChain's `content`."""
    if reply is None:
        return ReplyText("", False)
    if isinstance(reply, str):
        return ReplyText(reply, False)
    choice = _first(_get(reply, "choices"))
    if choice is not None:
        text = _text(_get(_get(choice, "message"), "content")) or _text(_get(choice, "text"))
        return ReplyText(text or "", _get(choice, "finish_reason") in _CUT)
    for name in ("text", "output_text", "content"):
        text = _text(_get(reply, name))
        if text is not None:
            return ReplyText(text, _stopped_at(reply) in _CUT)
    raise SummaryFailed(
        f"a {type(reply).__name__} came back where a string was expected. Return the text of the reply", kind="garbage"
    )


def _stopped_at(reply: object) -> Any:
    metadata = _get(reply, "response_metadata")
    return next(
        (
            reason
            for owner, name in (
                (reply, "stop_reason"),
                (reply, "finish_reason"),
                (reply, "status"),
                (metadata, "finish_reason"),
                (metadata, "stop_reason"),
            )
            if isinstance(reason := _get(owner, name), str)
        ),
        None,
    )


def _get(owner: object, name: str) -> Any:
    return owner.get(name) if isinstance(owner, Mapping) else getattr(owner, name, None)


def _first(value: object) -> Any:
    return value[0] if isinstance(value, list | tuple) and value else None


def _text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        texts = [part if isinstance(part, str) else _get(part, "text") for part in content]
        return "".join(text for text in texts if isinstance(text, str))
    return None
