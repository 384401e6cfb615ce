"""Secrets on command lines: `mysql -p...`, `docker login -p ...`, `set -x NAME ...`, `echo ... | sudo -S`.

An option such as `-p` says nothing alone (`mkdir -p`, `ssh -p 22`), so the command before it decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clew.redact.values import SecretFinding, is_number, is_path, is_placeholder

_QUOTED = rb"(?:\\{0,4}(?P<quote>[\"'])(?P<quoted>[^\"'\n\\]{1,128})|(?P<bare>[^\s\"'`|;&<>\\]{2,128}))"
_VALUE = re.compile(_QUOTED).match
# It begins with a literal, which makes it as fast as a search for that literal.
_OPTION = re.compile(rb" -(?P<option>[pPawuUS]|storepass|keypass|-user|-proxy-user|-auth)(?P<space>[ =]?)(?=[^\s-])")
_USER_OPTIONS = (b"u", b"U", b"-user", b"-proxy-user", b"-auth")
# The command that each option belongs to, and whether the value may be joined to it, or has to be.
_LOGIN = rb"(?:docker|podman|nerdctl|helm(?:[ ]registry)?|az|cf|oc|crane|skopeo|buildah|oras)[ ]login"
_COMMANDS_OF = {
    b"p": (
        (re.compile(rb"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mysqlsh|mariadb(?:-dump|-admin)?|mycli)\b"), False),
        (re.compile(rb"\b(?:7za?|7zz|rar|unrar)\b"), False),
        (re.compile(rb"\bsshpass\b"), None),
        (re.compile(rb"\b(?:%b|mongo(?:sh|dump|restore|export|import)?|htpasswd|ansible-vault)\b" % _LOGIN), True),
    ),
    b"P": ((re.compile(rb"\b(?:zip|unzip|zipcloak|sqlcmd|bcp|isql|tsql)\b"), None),),
    b"a": ((re.compile(rb"\b(?:redis-cli|valkey-cli|keydb-cli)\b"), True),),
    b"w": ((re.compile(rb"\bldap(?:search|modify|add|delete|whoami|passwd|compare)\b"), True),),
    b"storepass": ((re.compile(rb"\b(?:keytool|jarsigner|apksigner)\b"), True),),
    b"keypass": ((re.compile(rb"\b(?:keytool|jarsigner|apksigner)\b"), True),),
}
_COMMAND_CHARS = 400
_ENDS_COMMAND = re.compile(rb"\n|\\n|[;|&]")

_USER_AND_PASSWORD = re.compile(
    rb"(?:\\{0,4}(?P<quote>[\"'])[^\s:%\"'$<{]{1,128}+[:%](?P<quoted>[^\"'\n\\]{1,256})"
    rb"|[^\s:%\"'$<{\\]{1,128}+[:%](?P<bare>[^\s\"'\\]{1,256}))"
).match
_CLIENTS = re.compile(rb"\b(?:curl|wget|smbclient|https?|xh)\b(?!:)")

_ECHO = re.compile(
    rb"echo[ ](?:-[ne]{1,2}[ ])?\\{0,4}[\"']?(?:(?P<user>[A-Za-z_][\w.-]{0,31}):)?(?P<value>[^\s\"'|\\]{3,128})"
    rb"\\{0,4}[\"']?[ ]?\|[ ]?(?P<reader>[^\n|]{0,120})\Z"
)
_PGPASS = re.compile(rb":543[0-9]:[^:\s]{1,63}:[^:\s]{1,63}:(?P<value>[^:\s]{4,128})(?=\s|\Z|\\n)")


def secrets_in_commands(text: bytes) -> Iterator[SecretFinding]:
    """The secrets that command lines pass by options of one letter."""
    for match in _OPTION.finditer(text):
        option = match["option"]
        if option in _USER_OPTIONS or (option == b"a" and _command_before(text, match.start(), _CLIENTS)):
            if _command_before(text, match.start(), _CLIENTS):
                yield from _password_of_user(text, match.end())
        elif option == b"S":
            if finding := echoed_password(text, match.start()):
                yield finding
        elif _takes_password(text, match):
            yield from _finding(text, match.end())
    for match in _PGPASS.finditer(text):
        if not is_placeholder(match["value"]) and not is_number(match["value"]):
            yield SecretFinding(*match.span("value"), "password")


def echoed_password(text: bytes, at: int) -> SecretFinding | None:
    """What is written to the command at that place: `echo ... | sudo -S`, `echo user:... | chpasswd`."""
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


def _takes_password(text: bytes, match: re.Match[bytes]) -> bool:
    is_spaced = bool(match["space"])
    return any(
        needs_space in (None, is_spaced) and _command_before(text, match.start(), command)
        for command, needs_space in _COMMANDS_OF.get(match["option"], ())
    )


def _command_before(text: bytes, at: int, command: re.Pattern[bytes]) -> bool:
    """Whether the command that an option belongs to is this one."""
    before = text[max(0, at - _COMMAND_CHARS) : at]
    ends = [end.end() for end in _ENDS_COMMAND.finditer(before)]
    # A backslash at the end of a line carries the command on to the next.
    while ends and before[: ends[-1]].endswith((b"\\\n", b"\\\\n")):
        ends.pop()
    return bool(command.search(before, ends[-1] if ends else 0))


def _finding(text: bytes, at: int) -> Iterator[SecretFinding]:
    value = _VALUE(text, at)
    if value is None:
        return
    start, end = value.span("quoted" if value["quoted"] is not None else "bare")
    written = text[start:end] if value["quoted"] is not None else text[start:end].rstrip(b",).]}")
    if len(written) >= 3 and not is_placeholder(written) and not written.startswith((b"-", b"$", b"/run/")):
        yield SecretFinding(start, start + len(written), "password")


def _password_of_user(text: bytes, at: int) -> Iterator[SecretFinding]:
    if match := _USER_AND_PASSWORD(text, at):
        start, stop = match.span("quoted" if match["quoted"] is not None else "bare")
        secret = text[start:stop]
        if not is_number(secret) and not is_placeholder(secret) and not is_path(secret) and secret[:1] != b"$":
            yield SecretFinding(start, stop, "basic-auth")
