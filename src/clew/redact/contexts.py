"""Finds secrets by what stands around them: headers, URLs, cookies, commands, and private key blocks.

A row of the table is a literal to search for in the lower-cased text, and an expression that is tried where the
literal was found. Every expression is bounded, and none is tried twice on the same stretch of text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clew.redact.findings import Finding
from clew.redact.values import (
    is_basic_auth,
    is_number,
    is_stand_in,
    looks_chosen,
    looks_random,
    mixes_letters_and_digits,
)


@dataclass(frozen=True, slots=True)
class Context:
    """`pattern` is what follows `trigger`, in lower case, with a group `secret`; the secret must pass `check`."""

    kind: str
    trigger: bytes
    pattern: bytes
    check: Callable[[bytes], bool]


def _is_password_in_url(value: bytes) -> bool:
    return value.lower() not in (b"password", b"pass", b"passwd", b"pwd", b"pw", b"token") and not (
        re.search(rb"^\$|[{}]|\*\*\*|\.\.\.|\[REDACTED|^%[sd(]|^x+$", value) or re.match(rb"[0-9]{2,5}[,)]", value)
    )


def _is_token(value: bytes) -> bool:
    """After `Authorization: Bearer`, little else than a token can stand, so a short one counts."""
    return looks_random(value, 16) or (len(value) >= 6 and mixes_letters_and_digits(value) and looks_chosen(value))


def _always(_: bytes) -> bool:
    return True


def _is_generated(value: bytes) -> bool:
    return looks_random(value, 16)


_Q = rb"""(?:\\{0,6}["'`])"""
_HEADER = rb"orization(?:%(q)b|\]){0,3}[ \t]{0,4}+[=:,][ \t]{0,4}+%(q)b?[fbr]?%(q)b?" % {b"q": _Q}
_FIELD = rb"%(q)b?[ \t]{0,4}+[:=][ \t]{0,4}+%(q)b?" % {b"q": _Q}
_SCHEME = rb"(?:bearer|token|bot|apikey|api-key|key|ssws|geniekey)[ \t=]{1,4}+"
_NOT_CODE = rb"(?![(\[{<$])"

# Of the contexts of one trigger the first that fits counts.
CONTEXTS = (
    Context(
        "url-password",
        b"://",
        rb"""[^\s/@:"'`<>?#\\]{0,256}+:(?P<secret>[^\s/"'`<>?#\\]{1,512})@(?=[\w\[?-])(?!sha256:)""",
        _is_password_in_url,
    ),
    Context(
        "slack-webhook",
        b"://",
        rb"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?P<secret>[a-z0-9_/-]{20,200}+)",
        _always,
    ),
    Context(
        "discord-webhook",
        b"://",
        rb"(?:[a-z]{1,10}\.)?discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/(?P<secret>\d{15,22}/[\w-]{40,100}+)",
        _always,
    ),
    Context(
        "teams-webhook",
        b"://",
        rb"[a-z0-9-]{1,60}+\.webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{40,300}+)",
        _always,
    ),
    Context("zapier-webhook", b"://", rb"hooks\.zapier\.com/hooks/catch/(?P<secret>\d{4,12}/\w{5,20}+)", _always),
    Context("basic-auth", b"auth", _HEADER + rb"basic[ \t]{1,4}+(?P<secret>[\w+/-]{6,512}+={0,2})", is_basic_auth),
    Context(
        "authorization", b"auth", _HEADER + _SCHEME + rb"(?P<secret>[\w.~+/=%|:-]{6,4096}+)" + _NOT_CODE, _is_token
    ),
    Context("authorization", b"auth", _HEADER + rb"(?P<secret>[\w.~+/=%|:-]{16,4096}+)(?![(\[{<$ ])", _is_generated),
    Context("basic-auth", b"auth", _FIELD + rb"(?P<secret>[a-z0-9+/]{8,1024}+={0,2})(?!\w)", is_basic_auth),
    Context("bearer-token", b"bearer", rb"[ \t]{1,4}+(?P<secret>[\w.~+/=%|-]{16,4096}+)" + _NOT_CODE, _is_generated),
    Context("url-signature", b"sig", rb"(?:nature)?=(?P<secret>[\w%+/.~-]{16,1024}+={0,2})", _is_generated),
    Context(
        "password",
        b"identified by",
        rb"[ \t]{1,4}(?:password[ \t]{1,4})?" + _Q + rb"(?P<secret>[^\s\"'`\\]{4,128}+)",
        looks_chosen,
    ),
)


def secrets_in_context(text: bytes, folded: bytes) -> list[Finding]:
    """Everything that headers, URLs, cookies, commands and key blocks give away, in no particular order."""
    found = [*_private_keys(text), *_cookies(text, folded), *_passwords_of_curl(text, folded)]
    for expression, contexts in _EXPRESSIONS:
        for match in expression.finditer(folded) if contexts[0].trigger in folded else ():
            group = next(i for i in range(1, len(contexts) + 1) if match[i] is not None)
            start, end = match.span(group)
            if contexts[group - 1].check(text[start:end]):
                found.append(Finding(start, end, contexts[group - 1].kind))
    return found


def _expression(trigger: bytes) -> tuple[re.Pattern[bytes], tuple[Context, ...]]:
    """One expression for all contexts of a trigger, begun by the trigger so that it is found fast.

    It looks ahead and takes only the trigger: what follows may hold the next one.
    """
    contexts = tuple(context for context in CONTEXTS if context.trigger == trigger)
    followed = b"|".join(context.pattern.replace(b"(?P<secret>", b"(") for context in contexts)
    return re.compile(re.escape(trigger) + rb"(?=" + followed + rb")"), contexts


_EXPRESSIONS = tuple(map(_expression, dict.fromkeys(context.trigger for context in CONTEXTS)))


_KEY_BEGINS = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----").match
_KEY_ENDS = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----").match
# Key material as it really appears: with line numbers, quotes, diff marks, escaped line ends, mail headers.
_KEY_MATERIAL = re.compile(rb"""(?:[A-Za-z0-9+/=\s"'`:,.|>?*#-]|\\+[nrt"'/]?)*+""").fullmatch
_CUT_OFF_KEY = re.compile(
    rb"""(?:(?:[\s"'`:,|>+?*#]|\\+[nrt]|[0-9]{1,5}[\s:?|]|-(?!-))*+[A-Za-z0-9+/=]{20,}+)+(?:\\+[nr]|\s)*"""
)
_SOME_BASE64 = re.compile(rb"[A-Za-z0-9+/]{12}").search
_LONGEST_KEY = 65_536


def _private_keys(text: bytes) -> Iterator[Finding]:
    """Whole blocks; where the end was cut off, as far as the key material goes."""
    at = text.find(b"-----BEGIN ")
    while at >= 0:
        end = at + 11
        if begin := _KEY_BEGINS(text, at):
            end = _end_of_key(text, begin.end())
            if end > begin.end():
                yield Finding(at, end, "private-key")
        at = text.find(b"-----BEGIN ", end)


def _end_of_key(text: bytes, start: int) -> int:
    """Where the key ends whose first line ends at `start`; `start` itself if no key follows."""
    dashes = text.find(b"-----", start)
    if dashes >= 0 and dashes - start <= _LONGEST_KEY and (end := _KEY_ENDS(text, dashes)):
        body = text[start:dashes]
        return end.end() if _KEY_MATERIAL(body) and _SOME_BASE64(body) else start
    cut_off = _CUT_OFF_KEY.match(text, start, start + _LONGEST_KEY)
    return start + len(cut_off[0].rstrip(b"\\nr \t\r\n")) if cut_off else start


_COOKIE_HEADER = re.compile(rb"(?i)cookie" + _Q + rb"?[ \t]{0,4}+[:=,][ \t]{0,4}+" + _Q + rb"?").match
_COOKIE = re.compile(rb"""[ \t]{0,4}+([\w.%-]{1,80}+)(?:=([^;\s"'`\\,]{0,4096}+))?(?:;|(?=[^;]|\Z))""").match
_COOKIE_ATTRIBUTES = frozenset(b"path domain expires max-age samesite version comment priority".split())
_SESSION_NAME = re.compile(rb"(?i)sess|sid|token|auth|jwt|csrf|xsrf|remember|login|secret|key").search


def _cookies(text: bytes, folded: bytes) -> Iterator[Finding]:
    at = folded.find(b"cookie")
    while at >= 0:
        end = at + 6
        if header := _COOKIE_HEADER(text, at):
            end = max(end, header.end())
            while (pair := _COOKIE(text, end)) and pair[2] is not None:
                if _is_session(pair[1], pair[2]):
                    yield Finding(*pair.span(2), "cookie")
                end = pair.end()
                if text[end - 1 : end] != b";":
                    break
        at = folded.find(b"cookie", end)


def _is_session(name: bytes, value: bytes) -> bool:
    if name.lower() in _COOKIE_ATTRIBUTES:
        return False
    return looks_random(value, 8 if _SESSION_NAME(name) else 20)


_USER_OPTION = re.compile(
    rb"""\s(?:-u|--user|--proxy-user|-U)[ \t=]{0,2}["']?[^\s:"'$<{]{1,128}+:(?P<secret>[^\s"'\\]{1,256})"""
)
_COMMAND_LENGTH = 1_000


def _passwords_of_curl(text: bytes, folded: bytes) -> Iterator[Finding]:
    at = folded.find(b"curl")
    while at >= 0:
        line_end = text.find(b"\n", at, at + _COMMAND_LENGTH)
        # A backslash at the end of a line carries the command on to the next.
        while line_end > 0 and text[line_end - 1 : line_end] == b"\\":
            line_end = text.find(b"\n", line_end + 1, at + _COMMAND_LENGTH)
        end = line_end if line_end >= 0 else min(len(text), at + _COMMAND_LENGTH)
        for match in _USER_OPTION.finditer(text, at, end):
            secret = match["secret"]
            if not is_number(secret) and not is_stand_in(secret) and not secret.startswith(b"$"):
                yield Finding(*match.span("secret"), "basic-auth")
        at = folded.find(b"curl", end)
