"""Secrets found by the text around them: in headers, URLs, cookies and on command lines.

Every expression is bounded, and none is tried twice on the same text. On a command line an option such as `-p` says
nothing alone (`mkdir -p`, `ssh -p 22`), so the command before it decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from clew.lazy import lazy_pattern
from clew.redact.values import (
    QUOTE,
    SecretFinding,
    is_basic_auth,
    is_number,
    is_path,
    is_placeholder,
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
    needed: bytes = b""
    """Characters of which a text must have one: to find out that it does not is fastest of all."""


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


def _is_argument(value: bytes) -> bool:
    return not is_placeholder(value) and not is_path(value)


def _is_mixed_password(value: bytes) -> bool:
    return mixes_letters_and_digits(value) and looks_like_password(value)


_QUOTE_GROUP = rb"(?:%b)" % QUOTE
_HEADER = rb"orization(?:%(q)b|\]){0,3}[ \t]{0,4}+[=:,][ \t]{0,4}+%(q)b?[fbr]?%(q)b?" % {b"q": _QUOTE_GROUP}
_FIELD = rb"%(q)b?[ \t]{0,4}+[:=][ \t]{0,4}+%(q)b?" % {b"q": _QUOTE_GROUP}
_SCHEME = rb"(?:bearer|token|bot|apikey|api-key|key|ssws|geniekey)[ \t=]{1,4}+"
_NOT_CODE = rb"(?![(\[{<$])"

# Of the contexts of one trigger the first that matches counts.
CONTEXTS = (
    # expect scripts: send "...\r"
    SecretContext(
        "password",
        b"send ",
        rb"(?:-- )?\\?[\"'](?P<secret>[^\s\"'\\]{6,128}+)\\{1,2}[rn]",
        looks_like_password,
        b"\"'",
    ),
    SecretContext("api-key", b"--api-key", rb"[= ](?P<secret>[a-z0-9]{16,128}+)(?![\w.-])", _is_argument),
    SecretContext("password", b"requirepass", rb"[ \t]{1,4}(?P<secret>[^\s\"']{6,128}+)", looks_like_password),
    SecretContext(
        "password",
        b"htpasswd ",
        rb"(?:-\w{0,4}nb\w{0,4}|-\w{0,4}b\w{0,4}[ ]{1,4}[^\s;|&]{1,200}+)[ ]{1,4}[^\s;|&]{1,64}+[ ]{1,4}"
        rb"(?P<secret>[^\s;|&\"']{6,128}+)",
        looks_like_password,
    ),
    SecretContext(
        "password", b"wpa_passphrase ", rb"[^\s;|&]{1,64}+[ ]{1,4}(?P<secret>[^\s;|&\"']{8,64}+)", looks_like_password
    ),
    SecretContext(
        "secret",
        b"setx ",
        rb"\w{0,40}(?:key|token|secret|password)\w{0,20}[ ]{1,4}\"?(?P<secret>[^\s\"%]{8,512}+)",
        _is_argument,
    ),
    SecretContext("npm-auth", b":_auth=", rb"\"?(?P<secret>[\w+/]{12,512}+={0,2})", _accept),
    SecretContext("registry-auth", b'"auth"', rb'[ ]{0,4}:[ ]{0,4}"(?P<secret>[\w+/]{16,1024}+={0,2})"', _is_generated),
    # A sentence in which other words stand between the label and the value: the value must have a digit.
    *(
        SecretContext(
            "password",
            label,
            rb"[^\n:=.]{0,48}?[ ](?:%b)[ ]\"?(?P<secret>[^\s\"'<>,]{6,128}+)" % verb,
            _is_mixed_password,
        )
        for label, verb in (
            (b"mot de passe d", b"est"),
            (b"passwort f", b"ist|lautet"),
            (b"la password d", "è".encode()),
            ("contraseña d".encode(), b"es"),
        )
    ),
    SecretContext(
        "password", b"log in as ", rb"[\w.@-]{1,64}+[ ]?/[ ]?(?P<secret>[^\s\"'<>,]{6,128}+)", _is_mixed_password
    ),
    SecretContext(
        "password",
        b"password (",
        rb"[^)\n]{1,30}+\)[ ]?[:=][ ]{0,3}(?P<secret>[^\s\"'<>,]{6,128}+)",
        _is_mixed_password,
    ),
    SecretContext("session-cookie", b"connect.sid=", rb"(?P<secret>s(?:%3A|:)[\w%.+/-]{20,300}+)", _accept),
    *(
        SecretContext(
            "seed-phrase",
            words,
            rb"[^\n:=]{0,20}?(?:\bis|:|=)[ \"']{1,3}(?P<secret>[a-z]{3,8}(?: [a-z]{3,8}){11,23}+)(?![a-z])",
            _accept,
        )
        for words in (b"mnemonic", b"seed phrase", b"recovery phrase")
    ),
    SecretContext(
        "url-password",
        b"://",
        rb"""[^\s/@:"'`<>?#\\]{0,256}+:(?P<secret>[^\s/"'`<>?#\\]{1,512})@(?=[\w\[?-])(?!sha256:)""",
        _is_password_in_url,
    ),
    SecretContext(
        "url-password",
        b":\\/\\/",
        rb"""[^\s/@:"'`<>?#\\]{0,256}+:(?P<secret>[^\s/"'`<>?#\\@]{1,512}+)@(?=[\w\[?-])""",
        _is_password_in_url,
        b"@",
    ),
    SecretContext(
        "password",
        b"securestring",
        rb"[ ]{1,4}(?:-string[ ]{1,4})?" + _QUOTE_GROUP + rb"(?P<secret>[^\s\"'`\\]{4,128}+)",
        looks_like_password,
        b"\"'`",
    ),
    *(
        # new PDO('...', 'user', '...'), mysqli_connect("host", "user", "...")
        SecretContext(
            "password",
            opened,
            rb"(?:_connect)?\(?[^()\n\"']{0,40}%(q)b[^\"'\n]{1,200}%(q)b,[ ]?%(q)b[^\"'\n]{1,64}%(q)b,[ ]?%(q)b"
            rb"(?P<secret>[^\s\"'\\]{4,128}+)" % {b"q": _QUOTE_GROUP},
            _is_argument,
            b"\"'`",
        )
        for opened in (b"pdo(", b"mysqli")
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
    SecretContext("url-signature", b"sig", rb"(?:nature)?=(?P<secret>[\w%+/.~-]{16,1024}+={0,2})", _is_generated, b"="),
    SecretContext(
        "password",
        b"identified by",
        rb"[ \t]{1,4}(?:password[ \t]{1,4})?" + _QUOTE_GROUP + rb"(?P<secret>[^\s\"'`\\]{4,128}+)",
        looks_like_password,
        b"\"'`",
    ),
)


def secrets_in_context(text: bytes, folded: bytes, literals: Container[bytes]) -> list[SecretFinding]:
    """The secrets in headers, URLs and cookies, in no particular order. `literals` are those that the text may have."""
    found = list(_cookies(text, folded)) if _COOKIE_LITERAL in literals else []
    present = {char for char in _NEEDED if bytes((char,)) in folded}
    for trigger, expression, contexts in _EXPRESSIONS:
        # To find out that a text does not have a word is several times faster than the expression.
        is_possible = not contexts[0].needed or not present.isdisjoint(contexts[0].needed)
        is_possible = is_possible and trigger in literals and trigger in folded
        for match in expression.finditer(folded) if is_possible else ():
            group = next(i for i in range(1, len(contexts) + 1) if match[i] is not None)
            start, end = match.span(group)
            if contexts[group - 1].check(text[start:end]):
                found.append(SecretFinding(start, end, contexts[group - 1].kind))
    return found


def _expression(trigger: bytes) -> tuple[bytes, re.Pattern[bytes], tuple[SecretContext, ...]]:
    """One expression for all contexts of a trigger. It begins with the trigger, which makes it fast.

    It looks ahead and consumes only the trigger, because what follows may contain the next one.
    """
    contexts = tuple(context for context in CONTEXTS if context.trigger == trigger)
    followed = b"|".join(context.pattern.replace(b"(?P<secret>", b"(") for context in contexts)
    return trigger, lazy_pattern(re.escape(trigger) + rb"(?=" + followed + rb")"), contexts


_EXPRESSIONS = tuple(map(_expression, dict.fromkeys(context.trigger for context in CONTEXTS)))
_NEEDED = frozenset(b"".join(context.needed for context in CONTEXTS))
_COOKIE_LITERAL, _HTPASSWD_LITERAL, _USER_LITERAL, _PGPASS_LITERAL = b"cookie", b"htpasswd", b"/user:", b":543"
CONTEXT_LITERALS = (
    *dict.fromkeys(context.trigger for context in CONTEXTS),
    *(_COOKIE_LITERAL, _HTPASSWD_LITERAL, _USER_LITERAL, _PGPASS_LITERAL),
)
"""Without any of these in lower case a text has no secret that is found here, apart from those behind an option."""


_COOKIE_HEADER = lazy_pattern(rb"(?i)cookie" + _QUOTE_GROUP + rb"?[ \t]{0,4}+[:=,][ \t]{0,4}+" + _QUOTE_GROUP + rb"?")
_COOKIE = lazy_pattern(rb"""[ \t]{0,4}+([\w.%-]{1,80}+)(?:=([^;\s"'`\\,]{0,4096}+))?(?:;|(?=[^;]|\Z))""")
_COOKIE_ATTRIBUTES = frozenset(b"path domain expires max-age samesite version comment priority".split())
_SESSION_NAME = lazy_pattern(rb"(?i)sess|sid|token|auth|jwt|csrf|xsrf|remember|login|secret|key")


def _cookies(text: bytes, folded: bytes) -> Iterator[SecretFinding]:
    at = folded.find(b"cookie")
    while at >= 0:
        end = at + 6
        if header := _COOKIE_HEADER.match(text, at):
            end = max(end, header.end())
            while (pair := _COOKIE.match(text, end)) and pair[2] is not None:
                if _is_session_cookie(pair[1], pair[2]):
                    yield SecretFinding(*pair.span(2), "cookie")
                end = pair.end()
                if text[end - 1 : end] != b";":
                    break
        at = folded.find(b"cookie", end)


def _is_session_cookie(name: bytes, value: bytes) -> bool:
    if name.lower() in _COOKIE_ATTRIBUTES:
        return False
    return looks_random(value, 8 if _SESSION_NAME.search(name) else 20)


# -- command lines ----------------------------------------------------------------------------------------------------

_QUOTED = rb"(?:\\{0,4}(?P<quote>[\"'])(?P<quoted>[^\"'\n\\]{1,128})|(?P<bare>[^\s\"'`|;&<>\\]{2,128}))"
_VALUE = lazy_pattern(_QUOTED)
# It begins with a literal, which makes it as fast as a search for that literal.
_OPTION = lazy_pattern(
    rb" -(?P<option>[pPawuUSAX]|storepass|keypass|-user|-proxy-user|-auth)(?P<space>[ =]?)(?=[^\s-])"
)
_USER_OPTIONS = (b"u", b"U", b"-user", b"-proxy-user", b"-auth")
# The command that each option belongs to, and whether the value may be joined to it, or has to be.
_LOGIN = rb"(?:docker|podman|nerdctl|helm(?:[ ]registry)?|az|cf|oc|crane|skopeo|buildah|oras)[ ]login"
_SNMP = lazy_pattern(rb"\bsnmp(?:walk|bulkwalk|get|getnext|set|trap|inform|table|status|df)\b")
_COMMANDS_OF = {
    b"p": (
        (
            lazy_pattern(rb"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mysqlsh|mariadb(?:-dump|-admin)?|mycli)\b"),
            False,
        ),
        (lazy_pattern(rb"\b(?:7za?|7zz|rar|unrar)\b"), False),
        (lazy_pattern(rb"\bsshpass\b"), None),
        (lazy_pattern(rb"\b(?:%b|mongo(?:sh|dump|restore|export|import)?|htpasswd|ansible-vault)\b" % _LOGIN), True),
    ),
    b"P": ((lazy_pattern(rb"\b(?:zip|unzip|zipcloak|sqlcmd|bcp|isql|tsql)\b"), None),),
    b"a": ((lazy_pattern(rb"\b(?:redis-cli|valkey-cli|keydb-cli)\b"), True),),
    b"w": ((lazy_pattern(rb"\bldap(?:search|modify|add|delete|whoami|passwd|compare)\b"), True),),
    b"A": ((_SNMP, True),),
    b"X": ((_SNMP, True),),
    b"storepass": ((lazy_pattern(rb"\b(?:keytool|jarsigner|apksigner)\b"), True),),
    b"keypass": ((lazy_pattern(rb"\b(?:keytool|jarsigner|apksigner)\b"), True),),
}
_COMMAND_CHARS = 400
_ENDS_COMMAND = (b"\n", b";", b"|", b"&")

_USER_AND_PASSWORD = lazy_pattern(
    rb"(?:\\{0,4}(?P<quote>[\"'])[^\s:%\"'$<{]{1,128}+[:%](?P<quoted>[^\"'\n\\]{1,256})"
    rb"|[^\s:%\"'$<{\\]{1,128}+[:%](?P<bare>[^\s\"'\\]{1,256}))"
)
_CLIENTS = lazy_pattern(rb"\b(?:curl|wget|smbclient|https?|xh)\b(?!:)")
_ALL_COMMANDS = (_CLIENTS, *(expression for rows in _COMMANDS_OF.values() for expression, _ in rows))

_ECHO = lazy_pattern(
    rb"echo[ ](?:-[ne]{1,2}[ ])?\\{0,4}[\"']?(?:(?P<user>[A-Za-z_][\w.-]{0,31}):)?(?P<value>[^\s\"'|\\]{3,128})"
    rb"\\{0,4}[\"']?[ ]?\|[ ]?(?P<reader>[^\n|]{0,120})\Z"
)
_HTPASSWD = lazy_pattern(rb"htpasswd[ ](?P<arguments>-[^\n;|&<>`\\]{4,200}[^\s;|&<>`\\])(?=\s*(?:[\n;|&<>`\\]|\Z))")
# net use Z: \\\\host\\share /user:domain\\name ...
_AFTER_USER = lazy_pattern(rb"/user:\S{1,64}[ ](?P<value>[^\s/\"'][^\s\"']{3,127})")
_PGPASS = lazy_pattern(rb":543[0-9]:[^:\s]{1,63}:[^:\s]{1,63}:(?P<value>[^:\s]{4,128})(?=\s|\Z|\\n)")


def secrets_in_commands(text: bytes, literals: Container[bytes]) -> Iterator[SecretFinding]:
    """The secrets that command lines pass by options of one letter. `literals` are those that the text may have."""
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
    for match in _HTPASSWD.finditer(text) if _HTPASSWD_LITERAL in literals else ():
        options = [word for word in match["arguments"].split() if word.startswith(b"-")]
        last = match["arguments"].split()[-1]
        if any(b"b" in option for option in options) and _is_argument(last.strip(b"\"'")):
            yield SecretFinding(match.end() - len(last), match.end(), "password")
    for match in _AFTER_USER.finditer(text) if _USER_LITERAL in literals else ():
        if b"net use" in text[max(0, match.start() - 200) : match.start()] and looks_like_password(match["value"]):
            yield SecretFinding(*match.span("value"), "password")
    for match in _PGPASS.finditer(text) if _PGPASS_LITERAL in literals else ():
        if not is_placeholder(match["value"]) and not is_number(match["value"]):
            yield SecretFinding(*match.span("value"), "password")


def commands_over_lines(text: bytes, literals: Container[bytes]) -> Iterator[int]:
    """Places of which a line may have a secret only together with the lines before it, in a text of lines in any order.

    Each line stands between null characters in lines of their own.
    """
    for match in _AFTER_USER.finditer(text) if _USER_LITERAL in literals else ():
        if looks_like_password(match["value"]):
            yield match.start()
    commands = b" ".join(_commands_that_go_on(text))
    for match in _OPTION.finditer(text) if commands else ():
        is_pair = match["option"] in (b"a", *_USER_OPTIONS) and _USER_AND_PASSWORD.match(text, match.end())
        if (is_pair and _CLIENTS.search(commands)) or _takes_password(match, commands):
            yield match.start()


def _commands_that_go_on(text: bytes) -> set[bytes]:
    """The commands in lines that end with a backslash."""
    found: set[bytes] = set()
    end = text.find(_GOES_ON)
    while end >= 0:
        line = text[text.rfind(b"\n", 0, end) + 1 : end]
        found.update(match[0] for command in _ALL_COMMANDS for match in command.finditer(line))
        end = text.find(_GOES_ON, end + 1)
    return found


_GOES_ON = b"\\\n\0"


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
    if not is_number(secret) and not is_placeholder(secret) and not is_path(secret) and secret[:1] != b"$":
        yield SecretFinding(start, stop, "basic-auth")
