"""Secrets found by the text around them: in headers, URLs and cookies.

Every expression is bounded, and none is tried twice on the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clew.redact.assignments import QUOTE
from clew.redact.values import (
    SecretFinding,
    is_basic_auth,
    looks_like_password,
    looks_random,
    mixes_letters_and_digits,
)


@dataclass(frozen=True, slots=True)
class SecretContext:
    """`trigger` is searched for in the lower-cased text; `pattern` is what must follow it, with a group `secret`.

    The secret must pass `check`.
    """

    kind: str
    trigger: bytes
    pattern: bytes
    check: Callable[[bytes], bool]


def _is_password_in_url(value: bytes) -> bool:
    return value.lower() not in (b"password", b"pass", b"passwd", b"pwd", b"pw", b"token") and not (
        re.search(rb"^\$|[{}]|\*\*\*|\.\.\.|\[REDACTED|^%[sd(]|^x+$", value) or re.match(rb"[0-9]{2,5}[,)]", value)
    )


def _is_token(value: bytes) -> bool:
    """For what follows `Authorization: Bearer`: that is hardly ever anything but a token, so a short one counts."""
    return looks_random(value, 16) or (
        len(value) >= 6 and mixes_letters_and_digits(value) and looks_like_password(value)
    )


def _accept(_: bytes) -> bool:
    return True


def _is_generated(value: bytes) -> bool:
    return looks_random(value, 16)


_QUOTE_GROUP = rb"(?:%b)" % QUOTE
_HEADER = rb"orization(?:%(q)b|\]){0,3}[ \t]{0,4}+[=:,][ \t]{0,4}+%(q)b?[fbr]?%(q)b?" % {b"q": _QUOTE_GROUP}
_FIELD = rb"%(q)b?[ \t]{0,4}+[:=][ \t]{0,4}+%(q)b?" % {b"q": _QUOTE_GROUP}
_SCHEME = rb"(?:bearer|token|bot|apikey|api-key|key|ssws|geniekey)[ \t=]{1,4}+"
_NOT_CODE = rb"(?![(\[{<$])"

# Of the contexts of one trigger the first that matches counts.
CONTEXTS = (
    SecretContext(
        "url-password",
        b"://",
        rb"""[^\s/@:"'`<>?#\\]{0,256}+:(?P<secret>[^\s/"'`<>?#\\]{1,512})@(?=[\w\[?-])(?!sha256:)""",
        _is_password_in_url,
    ),
    SecretContext("url-password", b"://", rb"(?P<secret>[\w.~%+-]{20,256}+)@(?=[\w\[])", _is_generated),
    SecretContext(
        "slack-webhook",
        b"://",
        rb"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?P<secret>[a-z0-9_/-]{20,200}+)",
        _accept,
    ),
    SecretContext(
        "discord-webhook",
        b"://",
        rb"(?:[a-z]{1,10}\.)?discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/(?P<secret>\d{15,22}/[\w-]{40,100}+)",
        _accept,
    ),
    SecretContext(
        "teams-webhook",
        b"://",
        rb"[a-z0-9-]{1,60}+\.webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{40,300}+)",
        _accept,
    ),
    SecretContext("zapier-webhook", b"://", rb"hooks\.zapier\.com/hooks/catch/(?P<secret>\d{4,12}/\w{5,20}+)", _accept),
    SecretContext(
        "basic-auth", b"auth", _HEADER + rb"basic[ \t]{1,4}+(?P<secret>[\w+/-]{6,512}+={0,2})", is_basic_auth
    ),
    SecretContext(
        "authorization", b"auth", _HEADER + _SCHEME + rb"(?P<secret>[\w.~+/=%|:-]{6,4096}+)" + _NOT_CODE, _is_token
    ),
    SecretContext(
        "authorization", b"auth", _HEADER + rb"(?P<secret>[\w.~+/=%|:-]{16,4096}+)(?![(\[{<$ ])", _is_generated
    ),
    SecretContext("basic-auth", b"auth", _FIELD + rb"(?P<secret>[a-z0-9+/]{8,1024}+={0,2})(?!\w)", is_basic_auth),
    SecretContext(
        "bearer-token", b"bearer", rb"[ \t]{1,4}+(?P<secret>[\w.~+/=%|-]{16,4096}+)" + _NOT_CODE, _is_generated
    ),
    SecretContext("url-signature", b"sig", rb"(?:nature)?=(?P<secret>[\w%+/.~-]{16,1024}+={0,2})", _is_generated),
    SecretContext(
        "password",
        b"identified by",
        rb"[ \t]{1,4}(?:password[ \t]{1,4})?" + _QUOTE_GROUP + rb"(?P<secret>[^\s\"'`\\]{4,128}+)",
        looks_like_password,
    ),
)


def secrets_in_context(text: bytes, folded: bytes) -> list[SecretFinding]:
    """The secrets in headers, URLs and cookies, in no particular order."""
    found = list(_cookies(text, folded))
    for expression, contexts in _EXPRESSIONS:
        for match in expression.finditer(folded):
            group = next(i for i in range(1, len(contexts) + 1) if match[i] is not None)
            start, end = match.span(group)
            if contexts[group - 1].check(text[start:end]):
                found.append(SecretFinding(start, end, contexts[group - 1].kind))
    return found


def _expression(trigger: bytes) -> tuple[re.Pattern[bytes], tuple[SecretContext, ...]]:
    """One expression for all contexts of a trigger. It begins with the trigger, which makes it fast.

    It looks ahead and consumes only the trigger, because what follows may contain the next one.
    """
    contexts = tuple(context for context in CONTEXTS if context.trigger == trigger)
    followed = b"|".join(context.pattern.replace(b"(?P<secret>", b"(") for context in contexts)
    return re.compile(re.escape(trigger) + rb"(?=" + followed + rb")"), contexts


_EXPRESSIONS = tuple(map(_expression, dict.fromkeys(context.trigger for context in CONTEXTS)))


_COOKIE_HEADER = re.compile(
    rb"(?i)cookie" + _QUOTE_GROUP + rb"?[ \t]{0,4}+[:=,][ \t]{0,4}+" + _QUOTE_GROUP + rb"?"
).match
_COOKIE = re.compile(rb"""[ \t]{0,4}+([\w.%-]{1,80}+)(?:=([^;\s"'`\\,]{0,4096}+))?(?:;|(?=[^;]|\Z))""").match
_COOKIE_ATTRIBUTES = frozenset(b"path domain expires max-age samesite version comment priority".split())
_SESSION_NAME = re.compile(rb"(?i)sess|sid|token|auth|jwt|csrf|xsrf|remember|login|secret|key").search


def _cookies(text: bytes, folded: bytes) -> Iterator[SecretFinding]:
    at = folded.find(b"cookie")
    while at >= 0:
        end = at + 6
        if header := _COOKIE_HEADER(text, at):
            end = max(end, header.end())
            while (pair := _COOKIE(text, end)) and pair[2] is not None:
                if _is_session_cookie(pair[1], pair[2]):
                    yield SecretFinding(*pair.span(2), "cookie")
                end = pair.end()
                if text[end - 1 : end] != b";":
                    break
        at = folded.find(b"cookie", end)


def _is_session_cookie(name: bytes, value: bytes) -> bool:
    if name.lower() in _COOKIE_ATTRIBUTES:
        return False
    return looks_random(value, 8 if _SESSION_NAME(name) else 20)
