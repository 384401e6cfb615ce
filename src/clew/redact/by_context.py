"""Secrets found by the text around them: in headers, URLs, cookies and on command lines.

Every expression is bounded, and none is tried twice on the same text. On a command line an option such as `-p` says
nothing alone (`mkdir -p`, `ssh -p 22`), so the command before it decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from clew.lazy import lazy_pattern
from clew.redact.catalog import RULES, expanded
from clew.redact.values import (
    QUOTE,
    SENTENCE_WORDS,
    Literals,
    SearchedText,
    SecretFinding,
    is_path,
    is_placeholder,
    is_readable_base64,
    looks_like_password,
    looks_random,
    mixes_letters_and_digits,
)


def _is_password_in_url(value: bytes) -> bool:
    return value.lower() not in (b"password", b"pass", b"passwd", b"pwd", b"pw", b"token") and not (
        re.search(rb"^\$|[{}]|\*\*\*|\.\.\.|\[REDACTED|^%[sd(]|^x+$", value) or re.match(rb"[0-9]{2,5}[,)]", value)
    )


def _is_token(value: bytes) -> bool:
    """For what follows `Authorization: Bearer`: that is hardly ever anything but a token, so a short one counts."""
    return looks_random(value, 16) or (
        len(value) >= 6 and mixes_letters_and_digits(value) and looks_like_password(value)
    )


_CHECKS: dict[str, Callable[[bytes], bool]] = {
    "any": lambda _: True,
    "argument": lambda value: not is_placeholder(value) and not is_path(value),
    "basic-auth": lambda value: is_readable_base64(value, b":"),
    "generated": lambda value: looks_random(value, 16),
    "mixed-password": lambda value: mixes_letters_and_digits(value) and looks_like_password(value),
    "password": looks_like_password,
    "phrase": lambda value: SENTENCE_WORDS.isdisjoint(value.lower().replace(b"-", b" ").split()),
    "token": _is_token,
    "url-password": _is_password_in_url,
}


@dataclass(frozen=True, slots=True)
class _Context:
    """`pattern` is what must follow a literal in lower-cased text, with a group `secret` that must pass `check`."""

    kind: str
    check: Callable[[bytes], bool]
    pattern: bytes


_CONTEXTS: dict[bytes, list[_Context]] = {}
"""By literal; of those of one literal the first that matches counts."""
for _kind, _literal, _check, _pattern in RULES["contexts"]:
    _CONTEXTS.setdefault(_literal.encode(), []).append(_Context(_kind, _CHECKS[_check], expanded(_pattern)))
CONTEXT_KINDS = frozenset(context.kind for contexts in _CONTEXTS.values() for context in contexts)


_LITERALS = Literals(_CONTEXTS)


def secrets_in_context(searched: SearchedText) -> list[SecretFinding]:
    """The secrets in headers, URLs and cookies, in no particular order."""
    text = searched.raw
    found = [*_cookies(searched), *_assigned(text), *_of_kubernetes(text, searched.folded)]
    for literal, at in _LITERALS.found_in(searched):
        if match := _expression(literal).match(searched.folded, at + len(literal)):
            context = _CONTEXTS[literal][(match.lastindex or 1) - 1]
            start, end = match.span(match.lastindex or 1)
            if context.check(text[start:end]):
                found.append(SecretFinding(start, end, context.kind))
    return found


@cache
def _expression(literal: bytes) -> re.Pattern[bytes]:
    """One expression for what may follow a literal."""
    return re.compile(b"|".join(context.pattern.replace(b"(?P<secret>", b"(") for context in _CONTEXTS[literal]))


_COOKIE_HEADER = lazy_pattern(rb"(?i)cookie(?:%(q)b)?[ \t]{0,4}+[:=,][ \t]{0,4}+(?:%(q)b)?" % {b"q": QUOTE})
_COOKIE = lazy_pattern(rb"""[ \t]{0,4}+([\w.%-]{1,80}+)(?:=([^;\s"'`\\,]{0,4096}+))?(?:;|(?=[^;]|\Z))""")
_COOKIE_ATTRIBUTES = frozenset(b"path domain expires max-age samesite version comment priority".split())
_SESSION_NAME = lazy_pattern(rb"(?i)sess|sid|token|auth|jwt|csrf|xsrf|remember|login|secret|key")


def _cookies(searched: SearchedText) -> Iterator[SecretFinding]:
    text, end = searched.raw, 0
    for at in searched.places.get(b"cookie", ()):
        if at >= end and (header := _COOKIE_HEADER.match(text, at)):
            end = header.end()
            while (pair := _COOKIE.match(text, end)) and pair[2] is not None:
                if _is_session_cookie(pair[1], pair[2]):
                    yield SecretFinding(*pair.span(2), "cookie")
                end = pair.end()
                if text[end - 1 : end] != b";":
                    break


def _is_session_cookie(name: bytes, value: bytes) -> bool:
    if name.lower() in _COOKIE_ATTRIBUTES:
        return False
    return looks_random(value, 8 if _SESSION_NAME.search(name) else 20)


_ASSIGNED = lazy_pattern(
    rb"=[ ]?(?:b|new \w{1,40}\()?(?P<quote>[\"'])(?P<value>[A-Za-z0-9+/_-]{32,128}={0,2})(?P=quote)"
)
_ASSIGNED_NAME = lazy_pattern(rb"\w{1,40}[ ]?:?\Z")
_NAMES_PUBLIC_VALUE = lazy_pattern(
    rb"(?i)hash|sum|digest|sha|md5|etag|commit|rev|integrity|id$|uuid|cursor|page|icon|image|img|png|font|logo|data|url|path|"
    rb"cert|public|nonce|salt|iv$|fingerprint|version|build|trace|sample|expected|alphabet|chars|content"
)
_KNOWN_BASE64 = (b"iVBOR", b"R0lGOD", b"/9j/", b"UklGR", b"AAAA", b"eyJ", b"PHN2", b"JVBER", b"MII", b"sha", b"d09G")


def _assigned(text: bytes) -> Iterator[SecretFinding]:
    """`x = "..."`: a value of capitals, small letters and digits, whatever its name; no hash, picture or words."""
    for match in _ASSIGNED.finditer(text) if b"=" in text else ():
        value = match["value"]
        is_mixed = (
            value.lower() != value and value.upper() != value and len(set(value)) >= 18 and looks_random(value, 32)
        )
        name = _ASSIGNED_NAME.search(text, max(0, match.start() - 42), match.start()) if is_mixed else None
        if name and not value.startswith(_KNOWN_BASE64) and not _NAMES_PUBLIC_VALUE.search(name[0].rstrip(b" :")):
            yield SecretFinding(*match.span("value"), "generated-secret")


_FIELD = lazy_pattern(
    rb"\n[ \t]{1,8}[\w.-]{1,80}:[ \t]{0,4}[\"']?(?P<value>[^\s\"'\\]{6,4096}+)(?=[\"']?[ \t]*(?:\n|\Z))"
)


def _of_kubernetes(text: bytes, folded: bytes) -> Iterator[SecretFinding]:
    """The values of a Secret: below `data:` base64 of any text, below `stringData:` what looks like a password."""
    for heading in (b"data:", b"stringdata:") if b"kind: secret" in folded else ():
        at = folded.find(heading)
        while at >= 0:
            end = at + len(heading)
            while field := _FIELD.match(text, end):
                end = field.end()
                is_encoded = is_readable_base64(field["value"])
                if is_encoded or (heading == b"stringdata:" and looks_like_password(field["value"])):
                    yield SecretFinding(*field.span("value"), "encoded-secret" if is_encoded else "password")
            at = folded.find(heading, end)


# -- command lines ----------------------------------------------------------------------------------------------------

_QUOTED = rb"(?:\\{0,4}(?P<quote>[\"'])(?P<quoted>[^\"'\n\\]{1,128})|(?P<bare>[^\s\"'`|;&<>\\]{2,128}))"
_VALUE = lazy_pattern(_QUOTED)
# It begins with a literal, which makes it as fast as a search for that literal.
_OPTION = lazy_pattern(
    rb" -(?P<option>storepass|keypass|[pPakwuUSAX]|-user|-proxy-user|-auth)(?P<space>[ =]?)(?=[^\s-])"
)
_USER_OPTIONS = (b"u", b"U", b"-user", b"-proxy-user", b"-auth")
_IS_SPACED = {"any": None, "blank": True, "joined": False}
_COMMANDS_OF: dict[bytes, list[tuple[re.Pattern[bytes], bool | None]]] = {}
"""The commands that each option belongs to, and whether a blank has to be before its value."""
for _option, _commands, _space in RULES["options"]:
    _COMMANDS_OF.setdefault(_option.encode(), []).append((lazy_pattern(_commands.encode()), _IS_SPACED[_space]))
_COMMAND_CHARS = 400
_ENDS_COMMAND = (b"\n", b";", b"|", b"&")

_USER_AND_PASSWORD = lazy_pattern(
    rb"(?:\\{0,4}(?P<quote>[\"'])[^\s:%\"'$<{]{1,128}+[:%](?P<quoted>[^\"'\n\\]{1,256})"
    rb"|[^\s:%\"'$<{\\]{1,128}+[:%](?P<bare>[^\s\"'\\]{1,256}))"
)
_CLIENTS = lazy_pattern(rb"\b(?:curl|wget|smbclient|https?|xh)\b(?!:)")

_ECHO = lazy_pattern(
    rb"echo[ ](?:-[ne]{1,2}[ ])?\\{0,4}[\"']?(?:(?P<user>[A-Za-z_][\w.-]{0,31}):)?(?P<value>[^\s\"'|\\]{3,128})"
    rb"\\{0,4}[\"']?[ ]?\|[ ]?(?P<reader>[^\n|]{0,120})\Z"
)


def secrets_in_commands(text: bytes) -> Iterator[SecretFinding]:
    """The secrets that command lines pass by options of one letter."""
    for match in _OPTION.finditer(text) if b"-" in text else ():
        option = match["option"]
        if option in _USER_OPTIONS or (option == b"a" and _CLIENTS.search(_command(text, match.start()))):
            if (pair := _USER_AND_PASSWORD.match(text, match.end())) and _CLIENTS.search(_command(text, match.start())):
                yield from _password_of_user(text, pair)
        elif option == b"S":
            if finding := echoed_password(text, match.start()):
                yield finding
        elif _takes_password(match, _command(text, match.start())):
            yield from _finding(text, match.end())


def echoed_password(text: bytes, at: int) -> SecretFinding | None:
    """What is written to the command at that place: `echo ... | sudo -S`, `echo user:... | chpasswd`."""
    if text.find(b"echo ", max(0, at - _COMMAND_CHARS), at) < 0:
        return None
    line = text[max(0, at - _COMMAND_CHARS) : at].rpartition(b"\n")[2]
    if b"echo " not in line or b"|" not in line:
        return None
    echo = _ECHO.search(line)
    if echo is None or is_placeholder(echo["value"]) or echo["value"].startswith(b"$"):
        return None
    start = at - len(line) + echo.start("value")
    rest = text[at : at + 24]
    reads = rest.startswith((b" -S", b"passwd", b"password-stdin", b"passphrase-fd", b"pass "))
    if not reads or (echo["user"] and not echo["reader"].endswith(b"ch")):
        return None
    return SecretFinding(start, start + len(echo["value"]), "password")


def _takes_password(match: re.Match[bytes], command: bytes) -> bool:
    is_spaced = bool(match["space"])
    return any(
        needs_space in (None, is_spaced) and expression.search(command)
        for expression, needs_space in _COMMANDS_OF.get(match["option"], ())
    )


def _command(text: bytes, at: int) -> bytes:
    """The command that the option at that place belongs to, as far as the option."""
    before = text[max(0, at - _COMMAND_CHARS) : at]
    if b"\\" not in before:
        return before[max(map(before.rfind, _ENDS_COMMAND)) + 1 :]
    # A backslash at the end of a line carries the command on to the next.
    before = before.replace(b"\\\n", b"  ").replace(b"\\\\n", b"   ").replace(b"\\n", b" \n")
    return before[max(map(before.rfind, _ENDS_COMMAND)) + 1 :]


def _finding(text: bytes, at: int) -> Iterator[SecretFinding]:
    value = _VALUE.match(text, at)
    if value is None:
        return
    start, end = value.span("quoted" if value["quoted"] is not None else "bare")
    written = text[start:end] if value["quoted"] is not None else text[start:end].rstrip(b",).]}")
    if len(written) >= 3 and not is_placeholder(written) and not written.startswith((b"-", b"$", b"/run/")):
        yield SecretFinding(start, start + len(written), "password")


def _password_of_user(text: bytes, pair: re.Match[bytes]) -> Iterator[SecretFinding]:
    start, stop = pair.span("quoted" if pair["quoted"] is not None else "bare")
    secret = text[start:stop]
    if not secret.isdigit() and not is_placeholder(secret) and not is_path(secret) and secret[:1] != b"$":
        yield SecretFinding(start, stop, "basic-auth")
