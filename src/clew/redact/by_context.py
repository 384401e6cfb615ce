"""Secrets found by the text around them.

`secrets_in_context` finds those in headers, URLs, cookies, commands and private key blocks; `assigned_secrets` those
after a name, as in `PASSWORD=...`, `"api_key": "..."`, `--token ...`, `<secret>...</secret>`. Every expression is
bounded, and none is tried twice on the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from clew.redact.values import (
    PLACEHOLDER_START,
    SecretFinding,
    has_symbol,
    is_basic_auth,
    is_number,
    is_placeholder,
    is_wordy,
    looks_like_password,
    looks_like_words,
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


_QUOTE = rb"""\\{0,6}["'`]"""
_QUOTE_GROUP = rb"(?:%b)" % _QUOTE
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
    """The secrets in headers, URLs, cookies, commands and key blocks, in no particular order."""
    found = [*_private_keys(text), *_cookies(text, folded), *_passwords_of_curl(text, folded)]
    for expression, contexts in _EXPRESSIONS:
        for match in expression.finditer(folded) if contexts[0].trigger in folded else ():
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


_KEY_BEGINS = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----").match
_KEY_ENDS = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----").match
# Key material as it appears in files and logs: with line numbers, quotes, diff marks, escaped line ends, mail headers.
_KEY_MATERIAL = re.compile(rb"""(?:[A-Za-z0-9+/=\s"'`:,.|>?*#-]|\\+[nrt"'/]?)*+""").fullmatch
_CUT_OFF_KEY = re.compile(
    rb"""(?:(?:[\s"'`:,|>+?*#]|\\+[nrt]|[0-9]{1,5}[\s:?|]|-(?!-))*+[A-Za-z0-9+/=]{20,}+)+(?:\\+[nr]|\s)*"""
)
_SOME_BASE64 = re.compile(rb"[A-Za-z0-9+/]{12}").search
_LONGEST_KEY = 65_536


def _private_keys(text: bytes) -> Iterator[SecretFinding]:
    """Private key blocks; of one whose end was cut off, as far as the key material goes."""
    at = text.find(b"-----BEGIN ")
    while at >= 0:
        end = at + 11
        if begin := _KEY_BEGINS(text, at):
            end = _end_of_key(text, begin.end())
            if end > begin.end():
                yield SecretFinding(at, end, "private-key")
        at = text.find(b"-----BEGIN ", end)


def _end_of_key(text: bytes, start: int) -> int:
    """Where the key ends whose first line ends at `start`; `start` itself if no key follows."""
    dashes = text.find(b"-----", start)
    if dashes >= 0 and dashes - start <= _LONGEST_KEY and (end := _KEY_ENDS(text, dashes)):
        body = text[start:dashes]
        return end.end() if _KEY_MATERIAL(body) and _SOME_BASE64(body) else start
    cut_off = _CUT_OFF_KEY.match(text, start, start + _LONGEST_KEY)
    return start + len(cut_off[0].rstrip(b"\\nr \t\r\n")) if cut_off else start


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


_USER_OPTION = re.compile(
    rb"""\s(?:-u|--user|--proxy-user|-U)[ \t=]{0,2}["']?[^\s:"'$<{]{1,128}+:(?P<secret>[^\s"'\\]{1,256})"""
)
_COMMAND_LENGTH = 1_000


def _passwords_of_curl(text: bytes, folded: bytes) -> Iterator[SecretFinding]:
    at = folded.find(b"curl")
    while at >= 0:
        line_end = text.find(b"\n", at, at + _COMMAND_LENGTH)
        # A backslash at the end of a line carries the command on to the next.
        while line_end > 0 and text[line_end - 1 : line_end] == b"\\":
            line_end = text.find(b"\n", line_end + 1, at + _COMMAND_LENGTH)
        end = line_end if line_end >= 0 else min(len(text), at + _COMMAND_LENGTH)
        for match in _USER_OPTION.finditer(text, at, end):
            secret = match["secret"]
            if not is_number(secret) and not is_placeholder(secret) and not secret.startswith(b"$"):
                yield SecretFinding(*match.span("secret"), "basic-auth")
        at = folded.find(b"curl", end)


# How a value is joined to its name: by `=`, `:`, `=>`, `==`; as `name: TOKEN, value: ...`; as in
# `getenv("TOKEN", "...")`; as in `<token>...</token>`. A type or `default=` may come before the value.
_ASSIGNMENT_SIGN = (
    rb"(?P<gap>[ \t]{0,8}+)"
    rb"(?P<sign>[=:]{1,3}>?|,?\s{0,40}+(?:-[ ])?(?:%(q)b)?value(?:%(q)b)?[ \t]{0,4}+[:=]|,|>)"
    rb"[ \t]{0,8}+(?:[a-z_][a-z_.|\[\] ]{0,30}=[ \t]{0,4}+)?"
) % {b"q": _QUOTE}
# On a command line and in SQL a space may join: `--token ...`, `sshpass -p ...`, `PASSWORD '...'`.
_SPACE_AS_SIGN = (
    rb"(?P<space>(?(dash)[ \t]{1,4}+(?!-)|(?!))"
    rb"|(?<=password)[ \t]{1,4}+(?=')|(?<=sshpass)[ \t]{1,4}+-p[ \t]{0,2})"
)


def _assignment_of(word: bytes, shortest: int) -> re.Pattern[bytes]:
    """Finds a word with an assignment behind it, and consumes only the word: the value may contain the next name."""
    tail = rb"(?:(?<=-%b)(?P<dash>))?(?P<tail>[a-z0-9_.\-]{0,40}+)(?:%b|\]){0,3}" % (word, _QUOTE)
    value = (
        rb"(?:[fbru]{0,2}(?P<quote>%(quote)b)(?P<quoted>(?:[^\"'`\\\s]|\\/){%(shortest)d,1024}+)(?P=quote)"
        rb"|(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\=]{%(shortest)d,512}+={0,3})(?P<after>.?))"
    ) % {b"quote": _QUOTE, b"shortest": shortest}
    return re.compile(rb"(?s)%b(?=%b(?:%b|%b)%b)" % (word, tail, _ASSIGNMENT_SIGN, _SPACE_AS_SIGN, value))


# Every known name contains one of these words. The expressions are for lower-cased text, and each begins with a
# literal, which makes it as fast as a search for that literal. Passwords and secrets are chosen by people and may be
# short; tokens and keys are generated.
_SHORTEST_VALUE = {b"pass": 6, b"pwd": 6, b"secret": 8, b"token": 12, b"key": 12}
_ASSIGNMENTS = tuple((word, _assignment_of(word, shortest)) for word, shortest in _SHORTEST_VALUE.items())
_PLACEHOLDER = PLACEHOLDER_START.encode("ascii")
_LONGEST_NAME = 64
_NAME_CHARS = bytes(ord("a" if (chr(byte).isalnum() and byte < 128) or byte in b"_.-" else " ") for byte in range(256))

# With these behind the word it is still the name of a secret; any other suffix (`token_type`, `key_id`, `tokens`,
# `password_field`) makes it the name of something else.
_NAME_SUFFIX = (
    rb"(?:_?(?:value|val|string|str|text|plain|raw|b64|base64|prod|production|dev|staging|live|test|local|main|"
    rb"base|default|new|old|current|primary|secondary|backup|confirm|confirmation|key|token|access_key|id_token|secret|"
    rb"[0-9]{1,3}))*"
)
_KEY_PREFIXES = (
    rb"api|access|secret|private|account|auth|encrypt|encryption|encoding|crypto|cipher|sign|signing|signature|hmac|"
    rb"jwt|master|service|service_role|role|shared|shared_access|storage|subscription|app|application|license|client|"
    rb"consumer|webhook|integration|admin|deploy|write|ingest|functions|server|project|data|openai|anthropic|gemini|"
    rb"stripe|sendgrid|mailgun|maps|cloudflare|datadog|algolia|search|bot|session|cookie|salt|root|wallet|ssh|tls|ssl"
)


@dataclass(frozen=True, slots=True)
class NamedSecretKind:
    """The names of one kind of secret. `human_chosen`: people choose such values, so a short one counts too."""

    kind: str
    name: re.Pattern[bytes]
    human_chosen: bool = False


def _named(kind: str, pattern: bytes, human_chosen: bool = False) -> NamedSecretKind:
    return NamedSecretKind(kind, re.compile(pattern), human_chosen)


# The first match gives the kind. Names are lower case here, with `_` for `-` and `.`.
NAMED_KINDS = (
    _named("aws-secret-key", rb".*(?:aws_?secret|secret_?access_?key|aws_?session_?token).*"),
    _named("azure-storage-key", rb"(?:.*_)?(?:account_?key|shared_?access_?key)"),
    _named("password", rb".*(?:password|passwd|passwort|passphrase|passcode|pwd)" + _NAME_SUFFIX, human_chosen=True),
    _named("password", rb"(?:.*_)?(?:db|my|ssh|smtp|ftp|mail|sql|pg|redis|user|root|admin)?_?pass", human_chosen=True),
    _named("secret", rb".*secret" + _NAME_SUFFIX, human_chosen=True),
    _named("token", rb".*token" + _NAME_SUFFIX),
    _named("api-key", rb"(?:.*_)?(?:[a-z0-9]*(?:" + _KEY_PREFIXES + rb"))_?key" + _NAME_SUFFIX),
)
_QUERY_KEY = NAMED_KINDS[-1]
_NOT_A_SECRET = re.compile(
    rb"(?:.*_)?(?:next|page|nextpage|continuation|sync|cursor|resume|pad|eos|bos|unk|cls|sep|mask|special|stop|prev|"
    rb"previous|last|first|start|end|max|min|num|total|is|has|no|show|hide|forgot|reset|use|require|cache|public|"
    rb"publishable|design|idempotency|old|site|client_request|change|find|get|set|per)_?"
    rb"(?:page_?)?(?:token|password|secret|key|pass|pwd)|old_?pwd|(?:user_)?signingkey|.*public_?key|.*keypass"
).fullmatch
# An environment variable may name any service, and holds a value, never code.
_KEY_IN_ENVIRONMENT = re.compile(rb"[A-Z][A-Z0-9_]{1,60}_KEY").fullmatch
_NO_KEY_IN_ENVIRONMENT = re.compile(rb"PUBLIC|PUB_|CACHE|PRIMARY|FOREIGN|SORT|PARTITION|HASH_|SITE|ROW|INDEX").search


def assigned_secrets(text: bytes, folded: bytes) -> list[SecretFinding]:
    """The values after a secret's name. `folded` is the text in lower case."""
    found = []
    for word, expression in _ASSIGNMENTS:
        # Checked first, because that is much faster than the expression where the word does not occur.
        for match in expression.finditer(folded) if word in folded else ():
            if secret := _secret_in(text, match):
                found.append(secret)
    return found


def secret_under(name: str, value: str) -> str | None:
    """The kind of secret that `value` is, as the value of the key `name`; None if it is none."""
    raw = name.encode("ascii", "replace")
    named = _kind_of(raw)
    if named is None or " " in value.strip():
        return None
    written = value.strip().encode("ascii", "replace")
    return named.kind if written and _is_secret_when_quoted(named, written) else None


def _secret_in(text: bytes, match: re.Match[bytes]) -> SecretFinding | None:
    name_start = _name_start(text, match.start())
    name = text[name_start : match.end("tail")]
    if name.lower() == b"key" and text[name_start - 1 : name_start] in (b"?", b"&"):
        named: NamedSecretKind | None = _QUERY_KEY
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
        is_secret = _is_secret_when_bare(named, name, value, match)
    else:
        # In a list of arguments the text after a name need not be its value.
        is_secret = looks_random(value, 16) if match["sign"] == b"," else _is_secret_when_quoted(named, value)
    return SecretFinding(start, start + len(value), named.kind) if is_secret else None


def _name_start(text: bytes, at: int) -> int:
    earliest = max(0, at - _LONGEST_NAME)
    return earliest + text[earliest:at].translate(_NAME_CHARS).rfind(b" ") + 1


@lru_cache(maxsize=4_096)
def _kind_of(name: bytes) -> NamedSecretKind | None:
    folded = name.lower().replace(b"-", b"_").replace(b".", b"_").strip(b"_")
    if _NOT_A_SECRET(folded):
        return None
    for named in NAMED_KINDS:
        if named.name.fullmatch(folded):
            return named
    if _KEY_IN_ENVIRONMENT(name) and not _NO_KEY_IN_ENVIRONMENT(name):
        return NAMED_KINDS[-1]
    return None


def _is_secret_when_quoted(named: NamedSecretKind, value: bytes) -> bool:
    if named.human_chosen and not (value.startswith((b"#", b".")) and is_wordy(value[1:])):
        return looks_random(value) or looks_like_password(value, 6 if named.kind == "password" else 8)
    return looks_random(value) and not is_number(value)


def _is_secret_when_bare(named: NamedSecretKind, name: bytes, value: bytes, match: re.Match[bytes]) -> bool:
    """Without quotes a value may as well be code, so it depends on how the assignment is written."""
    sign = match["sign"]
    if sign == b"," or (match["after"] in _OPENS_CODE and sign != b">"):
        return False
    is_setting = _is_plain_setting(name, match)
    if not named.human_chosen:
        return looks_random(value, 12 if is_setting else 16)
    if name.isupper() and sign == b"=" and not match["gap"] and looks_like_words(value, 8):
        # An environment variable holds a value, never code: there a password may be plain words.
        return not match["after"].strip()
    if is_setting:
        return (looks_random(value) or looks_like_password(value)) and not (is_number(value) and len(value) < 6)
    return looks_random(value, 8) and (has_symbol(value) or mixes_letters_and_digits(value))


_OPENS_CODE = (b"(", b"[", b"{", b"<")
_ENDS_ARGUMENT = (b",", b")", b"}", b"]", b"|")


def _is_plain_setting(name: bytes, match: re.Match[bytes]) -> bool:
    """A shell, .env, YAML, query or connection-string setting, where the value is no expression."""
    if match["sign"] == b">":
        return bool(match["after"] == b"<")
    if match["after"] in _ENDS_ARGUMENT:
        return False
    return match["sign"] != b"=" or name.isupper() or not match["gap"]
