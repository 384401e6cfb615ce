"""Finds secrets by the name before them: `PASSWORD=...`, `"api_key": "..."`, `--token ...`, `<secret>...</secret>`.

Starts at a word such as `token`, reads the whole name around it and the value after it, and asks `values` whether
that is a secret. Does not know the shapes of any provider's keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from clew.redact.findings import PLACEHOLDER_START, Finding
from clew.redact.values import (
    has_symbol,
    is_number,
    is_wordy,
    looks_chosen,
    looks_like_words,
    looks_random,
    mixes_letters_and_digits,
)

_QUOTE = rb"""\\{0,6}["'`]"""
# How a value is joined to its name: by `=`, `:`, `=>`, `==`; as `name: TOKEN, value: ...`; as in
# `getenv("TOKEN", "...")`; as in `<token>...</token>`. A type or `default=` may come before the value.
_JOINER = (
    rb"(?P<gap>[ \t]{0,8}+)"
    rb"(?P<sign>[=:]{1,3}>?|,?\s{0,40}+(?:-[ ])?(?:%(q)b)?value(?:%(q)b)?[ \t]{0,4}+[:=]|,|>)"
    rb"[ \t]{0,8}+(?:[a-z_][a-z_.|\[\] ]{0,30}=[ \t]{0,4}+)?"
) % {b"q": _QUOTE}
# On a command line and in SQL a space may join: `--token ...`, `sshpass -p ...`, `PASSWORD '...'`.
_SPACE = (
    rb"(?P<space>(?(dash)[ \t]{1,4}+(?!-)|(?!))"
    rb"|(?<=password)[ \t]{1,4}+(?=')|(?<=sshpass)[ \t]{1,4}+-p[ \t]{0,2})"
)


def _after(core: bytes, shortest: int) -> re.Pattern[bytes]:
    """Finds a core, looks ahead at what is joined to it, and takes only the core: the value may hold the next name."""
    tail = rb"(?:(?<=-%b)(?P<dash>))?(?P<tail>[a-z0-9_.\-]{0,40}+)(?:%b|\]){0,3}" % (core, _QUOTE)
    value = (
        rb"(?:[fbru]{0,2}(?P<quote>%(quote)b)(?P<quoted>(?:[^\"'`\\\s]|\\/){%(shortest)d,1024}+)(?P=quote)"
        rb"|(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\=]{%(shortest)d,512}+={0,3})(?P<after>.?))"
    ) % {b"quote": _QUOTE, b"shortest": shortest}
    return re.compile(rb"(?s)%b(?=%b(?:%b|%b)%b)" % (core, tail, _JOINER, _SPACE, value))


# Every name that we know has one of these words in it. The expressions are for lower-cased text, and each begins with
# a literal, which makes it as fast as a search for that literal. People choose passwords and secrets, which may be
# short; tokens and keys are generated.
_SHORTEST = {b"pass": 6, b"pwd": 6, b"secret": 8, b"token": 12, b"key": 12}
_ASSIGNMENTS = tuple((core, _after(core, shortest)) for core, shortest in _SHORTEST.items())
_PLACEHOLDER = PLACEHOLDER_START.encode("ascii")
_LONGEST_NAME = 64
_IN_A_NAME = bytes(ord("a" if (chr(byte).isalnum() and byte < 128) or byte in b"_.-" else " ") for byte in range(256))

# After the core of a name, these leave it the name of a secret; any other tail (`token_type`, `key_id`, `tokens`,
# `password_field`) makes it the name of something else.
_TAIL = (
    rb"(?:_?(?:value|val|string|str|text|plain|raw|b64|base64|prod|production|dev|staging|live|test|local|main|"
    rb"base|default|new|old|current|primary|secondary|backup|confirm|confirmation|key|token|access_key|id_token|secret|"
    rb"[0-9]{1,3}))*"
)
_OWNERS_OF_KEYS = (
    rb"api|access|secret|private|account|auth|encrypt|encryption|encoding|crypto|cipher|sign|signing|signature|hmac|"
    rb"jwt|master|service|service_role|role|shared|shared_access|storage|subscription|app|application|license|client|"
    rb"consumer|webhook|integration|admin|deploy|write|ingest|functions|server|project|data|openai|anthropic|gemini|"
    rb"stripe|sendgrid|mailgun|maps|cloudflare|datadog|algolia|search|bot|session|cookie|salt|root|wallet|ssh|tls|ssl"
)


@dataclass(frozen=True, slots=True)
class NamedKind:
    """Names of one kind of secret. `chosen`: people choose such values themselves, so a short one counts too."""

    kind: str
    name: re.Pattern[bytes]
    chosen: bool = False


def _names(kind: str, pattern: bytes, chosen: bool = False) -> NamedKind:
    return NamedKind(kind, re.compile(pattern), chosen)


# The first that fits names the kind. Names are lower case here, with `_` for `-` and `.`.
NAMED_KINDS = (
    _names("aws-secret-key", rb".*(?:aws_?secret|secret_?access_?key|aws_?session_?token).*"),
    _names("azure-storage-key", rb"(?:.*_)?(?:account_?key|shared_?access_?key)"),
    _names("password", rb".*(?:password|passwd|passwort|passphrase|passcode|pwd)" + _TAIL, chosen=True),
    _names("password", rb"(?:.*_)?(?:db|my|ssh|smtp|ftp|mail|sql|pg|redis|user|root|admin)?_?pass", chosen=True),
    _names("secret", rb".*secret" + _TAIL, chosen=True),
    _names("token", rb".*token" + _TAIL),
    _names("api-key", rb"(?:.*_)?(?:[a-z0-9]*(?:" + _OWNERS_OF_KEYS + rb"))_?key" + _TAIL),
)
_QUERY_KEY = NAMED_KINDS[-1]
_NOT_A_SECRET = re.compile(
    rb"(?:.*_)?(?:next|page|nextpage|continuation|sync|cursor|resume|pad|eos|bos|unk|cls|sep|mask|special|stop|prev|"
    rb"previous|last|first|start|end|max|min|num|total|is|has|no|show|hide|forgot|reset|use|require|cache|public|"
    rb"publishable|design|idempotency|old|site|client_request|change|find|get|set|per)_?"
    rb"(?:page_?)?(?:token|password|secret|key|pass|pwd)|old_?pwd|(?:user_)?signingkey|.*public_?key|.*keypass"
).fullmatch
# A variable of the environment may name any service, and what it holds is a value, never code.
_KEY_IN_ENVIRONMENT = re.compile(rb"[A-Z][A-Z0-9_]{1,60}_KEY").fullmatch
_NO_KEY_IN_ENVIRONMENT = re.compile(rb"PUBLIC|PUB_|CACHE|PRIMARY|FOREIGN|SORT|PARTITION|HASH_|SITE|ROW|INDEX").search


def assigned_secrets(text: bytes, folded: bytes) -> list[Finding]:
    """The values that stand after a secret's name. `folded` is the text in lower case."""
    found = []
    for core, expression in _ASSIGNMENTS:
        # Asking first costs nothing where the answer is yes early or the text is short.
        for match in expression.finditer(folded) if core in folded else ():
            if secret := _judged(text, match):
                found.append(secret)
    return found


def secret_under(name: str, value: str) -> str | None:
    """The kind of secret that `value` is, being what an object holds under `name`; None if it is none."""
    raw = name.encode("ascii", "replace")
    named = _kind_of(raw)
    if named is None or " " in value.strip():
        return None
    written = value.strip().encode("ascii", "replace")
    return named.kind if written and _is_secret_when_quoted(named, written) else None


def _judged(text: bytes, match: re.Match[bytes]) -> Finding | None:
    name_start = _name_start(text, match.start())
    name = text[name_start : match.end("tail")]
    if name.lower() == b"key" and text[name_start - 1 : name_start] in (b"?", b"&"):
        named: NamedKind | None = _QUERY_KEY
    else:
        named = _kind_of(name)
    if match["space"] is not None and not (name.startswith(b"--") or match["quote"] == b"'" or name.endswith(b"pass")):
        return None
    # `https://x-access-token:...@host` is a URL with a password, not an assignment.
    if named is None or text.endswith((_PLACEHOLDER, b"://"), 0, name_start):
        return None
    start, end = match.span("bare" if match["quoted"] is None else "quoted")
    value = text[start:end]
    if match["quoted"] is None:
        value = value.rstrip(b".:") if match["after"].isspace() or not match["after"] else value
        wanted = _is_secret_when_bare(named, name, value, match)
    else:
        # In a list of arguments the text after a name need not be its value.
        wanted = looks_random(value, 16) if match["sign"] == b"," else _is_secret_when_quoted(named, value)
    return Finding(start, start + len(value), named.kind) if wanted else None


def _name_start(text: bytes, at: int) -> int:
    earliest = max(0, at - _LONGEST_NAME)
    return earliest + text[earliest:at].translate(_IN_A_NAME).rfind(b" ") + 1


@lru_cache(maxsize=4_096)
def _kind_of(name: bytes) -> NamedKind | None:
    folded = name.lower().replace(b"-", b"_").replace(b".", b"_").strip(b"_")
    if _NOT_A_SECRET(folded):
        return None
    for named in NAMED_KINDS:
        if named.name.fullmatch(folded):
            return named
    if _KEY_IN_ENVIRONMENT(name) and not _NO_KEY_IN_ENVIRONMENT(name):
        return NAMED_KINDS[-1]
    return None


def _is_secret_when_quoted(named: NamedKind, value: bytes) -> bool:
    if named.chosen and not (value.startswith((b"#", b".")) and is_wordy(value[1:])):
        return looks_random(value) or looks_chosen(value, 6 if named.kind == "password" else 8)
    return looks_random(value) and not is_number(value)


def _is_secret_when_bare(named: NamedKind, name: bytes, value: bytes, match: re.Match[bytes]) -> bool:
    """Without quotes a value may as well be code, so it depends on how the assignment is written."""
    sign = match["sign"]
    if sign == b"," or (match["after"] in _OPENS_CODE and sign != b">"):
        return False
    is_setting = _is_plain_setting(name, match)
    if not named.chosen:
        return looks_random(value, 12 if is_setting else 16)
    if name.isupper() and sign == b"=" and not match["gap"] and looks_like_words(value, 8):
        # A variable of the environment holds a value, never code: there a password may be plain words.
        return not match["after"].strip()
    if is_setting:
        return (looks_random(value) or looks_chosen(value)) and not (is_number(value) and len(value) < 6)
    return looks_random(value, 8) and (has_symbol(value) or mixes_letters_and_digits(value))


_OPENS_CODE = (b"(", b"[", b"{", b"<")
_ENDS_AN_ARGUMENT = (b",", b")", b"}", b"]", b"|")


def _is_plain_setting(name: bytes, match: re.Match[bytes]) -> bool:
    """A shell, .env, YAML, query or connection-string setting, where the value is no expression."""
    if match["sign"] == b">":
        return bool(match["after"] == b"<")
    if match["after"] in _ENDS_AN_ARGUMENT:
        return False
    return match["sign"] != b"=" or name.isupper() or not match["gap"]
