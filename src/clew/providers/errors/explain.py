"""A refusal in words for people: what happened, and what to do about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from clew.errors import CalledEndpoint, ProviderRefused
from clew.providers.errors.table import ErrorKind

REMEDIES: dict[ErrorKind, str] = {
    "quota": "The account has no credit left; add some at the provider, or take another model.",
    "rate_limit": "Wait a little and try again.",
    "overloaded": "The provider is busy or down; try again in a while, or take another model.",
    "network": "There was no answer, or the connection broke; check the address and the connection, then try again.",
    "bad_request": "Check the name of the model and the address: `clew models show` shows both.",
    "prompt_too_long": "Make what is sent smaller.",
    "payload_too_large": "Make what is sent smaller.",
    "output_cap_too_large": "Set agent.max_tokens lower.",
    "other": "Try again; if it happens again, take another model.",
}
"""What to do where nothing better is known of the error."""
NO_KEY = "No key was sent: put it into an environment variable, and name that variable with model.api_key_env."
_SHOWN_CHARS = 400
_PAGE_CHARS = 4_000
"""Of a page: its tags are looked for again and again where they are not closed."""
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<(?:style|script)\b.*?</(?:style|script)>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)
_PAGE = re.compile(r"<!doctype html|<html[\s>]", re.IGNORECASE)
_NO_HOST = re.compile(
    r"name or service not known|nodename nor servname|getaddrinfo|name resolution|connectordnserror", re.IGNORECASE
)
_NOT_RUNNING = re.compile(r"connect(?:ion)? ?(?:call failed|refused)|cannot connect to host", re.IGNORECASE)
_NEARBY = re.compile(
    r"//(?:localhost|127\.|\[::1\]|0\.0\.0\.0|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|host\.docker\.)"
)
_CUT = re.compile(
    r"closed before the reply was complete|event of the stream is cut|payload is not completed", re.IGNORECASE
)
# A gateway answers these with its own page while the server behind it is down or refuses the size.
_GATEWAY_KINDS = ("overloaded", "rate_limit", "payload_too_large")


@dataclass(frozen=True, slots=True)
class RefusalText:
    """What happened, in one sentence, and what to do."""

    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.text} {self.remedy}"


def explain_refusal(
    refused: ProviderRefused, *, remedies: Mapping[ErrorKind, str] | None = None, now: datetime | None = None
) -> RefusalText:
    """A refusal in words; `remedies` by kind, for a program that has better ones than `REMEDIES`."""
    refusal = _refusal_text(refused, {**REMEDIES, **(remedies or {})})
    kept = " The part that arrived is kept." if refused.partial is not None else ""
    wait = refused.fault.retry_after
    when = f"{wait_text(wait, now or datetime.now().astimezone())} " if wait else ""
    return RefusalText(refusal.text + kept, when + refusal.remedy)


def wait_text(seconds: float, now: datetime) -> str:
    """How long a provider asks to wait: up to a minute in seconds, beyond that also as a time of day."""
    if seconds <= 60:
        return f"It asks to wait {max(1, round(seconds))} s."
    try:
        then = now + timedelta(seconds=seconds)
        if then.second or then.microsecond:
            # Never a minute too early.
            then = then.replace(second=0, microsecond=0) + timedelta(minutes=1)
    except OverflowError:
        return "It asks to wait for years."
    days = (then.date() - now.date()).days
    day = ("", " tomorrow")[days] if days < 2 else f" on {then.day} {then:%B}"
    return f"It asks to wait until about {then:%H:%M}{day}, in {_span(seconds)}."


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        count = round(seconds / size)
        if seconds >= size * 2 or (count == 1 and seconds >= size * 0.95) or size == 60:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    raise AssertionError("minutes have no upper bound")


def _refusal_text(refused: ProviderRefused, remedies: Mapping[ErrorKind, str]) -> RefusalText:
    address = refused.endpoint.address if refused.endpoint else ""
    who = refused.provider or "the provider"
    if _PAGE.search(refused.body[:2_000]):
        return _page(refused, address or who, who, remedies)
    if refused.fault.kind == "network":
        return _network(refused, address, who, remedies["network"])
    text = f"{who} refused ({_kind(refused)}): {error_message(refused.body).rstrip('.')}."
    if refused.fault.kind == "auth":
        return RefusalText(text, _key_remedy(refused.endpoint))
    return RefusalText(text, remedies.get(refused.fault.kind, remedies["other"]))


def _key_remedy(endpoint: CalledEndpoint | None) -> str:
    if endpoint is None or (endpoint.has_key and not endpoint.key_source):
        return "Check the key, and the variable that model.api_key_env names."
    if not endpoint.key_source:
        return NO_KEY
    return (
        f"Check the key in {endpoint.key_source}."
        if endpoint.has_key
        else f"No key was sent: set {endpoint.key_source}."
    )


def _network(refused: ProviderRefused, address: str, who: str, remedy: str) -> RefusalText:
    if refused.partial is not None or _CUT.search(refused.body):
        text = f"the reply of {who} broke off before its end."
        return RefusalText(text, "Ask again, or ask it to go on." if refused.partial else "Ask again.")
    if address and _NO_HOST.search(refused.body):
        text = f"there is no host of the name in {address}."
        return RefusalText(text, "Check model.base_url and the connection.")
    if address and _NOT_RUNNING.search(refused.body):
        if not _NEARBY.search(address):
            return RefusalText(f"there is no answer from {address}.", "Check the connection, and model.base_url.")
        text = f"no server is running at {address}."
        return RefusalText(text, "Start it, or set model.base_url to where it runs.")
    text = f"the connection to {who} failed: {error_message(refused.body).rstrip('.')}."
    return RefusalText(text, remedy)


def _page(refused: ProviderRefused, where: str, who: str, remedies: Mapping[ErrorKind, str]) -> RefusalText:
    found = _TITLE.search(refused.body[:_PAGE_CHARS])
    title = " ".join(found[1].split())[:80] if found else ""
    kind = refused.fault.kind
    if kind in _GATEWAY_KINDS:
        return RefusalText(
            f"{who} refused ({_kind(refused)}): a web page{f', {title}' if title else ''}.", remedies[kind]
        )
    return RefusalText(
        f"{where} answered with a web page{f' ({title})' if title else ''}, which no model does.",
        "Check model.base_url (many end with /v1), and whether a proxy or a login page is in between.",
    )


def _kind(refused: ProviderRefused) -> str:
    status = f"{refused.status}, " if refused.status and refused.status >= 400 else ""
    return status + refused.fault.kind.replace("_", " ")


def error_message(body: str) -> str:
    """The message inside an error's JSON on one line; the body itself where it has none."""
    text = (
        " ".join(_TAG.sub(" ", body[:_PAGE_CHARS]).split())
        if body.lstrip()[:1] == "<"
        else " ".join(_in_json(body).split())
    )
    return f"{text[:_SHOWN_CHARS]}…" if len(text) > _SHOWN_CHARS else text


def _in_json(body: str) -> str:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return body
    inner = found.get("error", found) if isinstance(found, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else inner
    return message if isinstance(message, str) and message.strip() else body
