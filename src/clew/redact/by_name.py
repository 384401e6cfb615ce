"""Secrets after their name, in every form in which a name and a value come together.

The words that end such names are searched for once; at each place the forms are tried in order: an assignment
(`PASSWORD=...`, `"api_key": "..."`, `--token ...`), a command that sets a variable, a sentence, a table. The names in
other languages come in sentences and tables alone. Every expression is bounded.

A sentence has a label (the word for password in one of many languages, or token, secret, key), what joins it to the
value, and a value that is no word: `the password is required` and `密码是必填项` stay. In a table the column of a label
has the values. Text has one byte for each character here, `?` for what is not ASCII; only the labels in other scripts
are searched for in the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from clew.lazy import lazy_pattern
from clew.redact.by_context import echoed_password
from clew.redact.catalog import RULES, expanded
from clew.redact.values import (
    PLACEHOLDER_START,
    QUOTE,
    SENTENCE_WORDS,
    Literals,
    SearchedText,
    SecretFinding,
    has_symbol,
    is_path,
    is_placeholder,
    is_technical_term,
    is_wordy,
    looks_like_password,
    looks_like_words,
    looks_random,
    mixes_letters_and_digits,
)

_JOINED = expanded("{JOINED}")
_VALUE = rb"(?P<open>(?:[?][ ])?[\"'`*_(\[?]{0,3})(?P<value>[^\s\"'`<>]{4,128})"


_LABELS = {
    word.encode(): lazy_pattern(re.escape(word.encode()) + ending.encode() + _JOINED + _VALUE)
    for word, ending in RULES["labels"]["words"].items()
}
"""For text in lower case: a label, what joins it to the value, and the value."""
_FOREIGN, _ACCENTED, _CUT = (
    tuple(word.encode() for word in RULES["labels"][kind]) for kind in ("foreign", "accented", "cut")
)
_HAS_ACCENT = lazy_pattern("[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff\ufffd]")
"""Whether a text has letters of theirs, alone or put together, or such as could not be read."""
# `Use "..." as the password`: the value precedes its label.
_BEFORE_LABEL = lazy_pattern(rb"[ ](?:as|is)[ ](?:[A-Za-z]{1,8}[ ]){0,2}\Z")
_LAST_WORD = lazy_pattern(rb"(?P<value>[^\s\"'`]{5,128})(?P<close>[\"'`*]{0,3})\Z")
_BEFORE_CHARS = 100
_LABEL_CHARS = 24

_LOGIN_BEFORE = lazy_pattern(rb"(?:login|user(?:name)?|account)[ \t\n:=]{1,4}\S{1,64}[ \t\n,;]{1,4}\Z")
_WITH_BEFORE = lazy_pattern(rb"\b(?:with|using|and)[ ](?:the[ ]|a[ ])?\Z")
_IS_CAPITALISED = lazy_pattern(rb"[A-Z]")
# `credentials: admin / ...`, `login admin:...`: the name of a user before the value.
_PAIR = lazy_pattern(
    rb"(?:cred(?:ential)?s?|logins?|passwords?)\b"
    rb"(?:[^\n:=/]{0,40}?[ ]?[:=(][ ]{0,2}|[ ](?:as|is|are|with|using)[ ]|[ ])"
    rb"[\"'`*]?(?P<user>[a-z_][\w.@-]{0,40})(?:[ ]/[ ]|:)(?P<value>[^\s\"'`<>/:]{5,64})(?=[\s\"'`*]|\Z)"
)
_JOINED_BEFORE = lazy_pattern(rb"(?:\b(?:and|with|using|use|the|or)[ ]|[,;/][ ]?)(?:the[ ]|a[ ])?\Z")
_BEFORE_PAIR = (b"pass", b"cred", b"login")
# The value's first bracket is not part of it.
_PROSE_PLACEHOLDER = PLACEHOLDER_START.lstrip("[").encode("ascii")
_LOOK_BACK = 100
_TRAILING = b".,:;)]}>*_`?"


def told_password(text: bytes, folded: bytes, at: int, word: bytes) -> SecretFinding | None:
    """The password that a sentence states after its label at that place."""
    if word in _BEFORE_PAIR and (pair := _PAIR.match(folded, at)):
        start, end = pair.span("value")
        value = text[start:end].rstrip(_TRAILING)
        if mixes_letters_and_digits(value) and _is_told(value, b"`"):
            return SecretFinding(start, start + len(value), "password")
    if word not in _LABELS or (word not in _CUT and _is_inside_name(text, at)):
        return None
    match = _LABELS[word].match(folded, at)
    if match is None:
        return None
    start, value = _trimmed(text, match)
    if value.startswith(_PROSE_PLACEHOLDER):
        return None
    before = folded[max(0, at - _LOOK_BACK) : at]
    joined = match["direct"] or b""
    is_after_sign = match["colon"] is not None or (
        _IS_CAPITALISED.match(value) and (b":" in joined or b"=" in joined or _WITH_BEFORE.search(before))
    )
    is_login = bool(_LOGIN_BEFORE.search(before))
    is_secret = _is_told(value, b"`" if is_after_sign or is_login else match["open"])
    if is_secret and match["direct"] is None:
        ends_line = text[start + len(value) : start + len(value) + 1] in (b"", b"\n", b"\r", b"\\")
        begins_line = not before.replace(b"\\n", b"\n").rpartition(b"\n")[2].strip()
        stands_alone = (begins_line and ends_line) or is_login or _JOINED_BEFORE.search(before)
        is_secret = bool(stands_alone) or _is_no_plain_word(value)
    return SecretFinding(start, start + len(value), "password") if is_secret else None


def told_token(text: bytes, folded: bytes, at: int, word: bytes) -> SecretFinding | None:
    """The token or key that a sentence states. These are generated, so the value must look random."""
    if _is_inside_name(text, at):
        return None
    match = _LABELS[word].match(folded, at)
    if match is None or match["direct"] is None or match["colon"] is not None:
        return None
    start, value = _trimmed(text, match)
    is_secret = looks_random(value, 10) and mixes_letters_and_digits(value)
    is_other = is_technical_term(value) or _is_hash(value) or _IS_CODE.search(value)
    return SecretFinding(start, start + len(value), "token") if is_secret and not is_other else None


def value_before_label(text: bytes, at: int) -> SecretFinding | None:
    """The password in `Use "..." as the root password`, whose label is at that place."""
    if text[at - 1 : at] != b" ":
        return None
    joint = _BEFORE_LABEL.search(text, max(0, at - _LABEL_CHARS), at)
    if joint is None:
        return None
    before = _LAST_WORD.search(text[max(0, joint.start() - _BEFORE_CHARS) : joint.start()])
    if before is None or not _is_told(before["value"], before["close"]) or is_path(before["value"]):
        return None
    start = joint.start() - len(before[0])
    return SecretFinding(start, start + len(before["value"]), "password")


def _is_inside_name(text: bytes, at: int) -> bool:
    if text[at - 2 : at] in (b"\\n", b"\\r", b"\\t"):
        return False
    return text[at - 1 : at].isalnum() or text[at - 1 : at] in (b"_", b"-", b".", b"/", b"$", b"\\")


def _trimmed(text: bytes, match: re.Match[bytes]) -> tuple[int, bytes]:
    start, end = match.span("value")
    return start, _without_trailing(text[start:end])


def _without_trailing(value: bytes) -> bytes:
    value = value.partition(b"\\n")[0]
    return value.rstrip(_TRAILING)


def _is_told(value: bytes, opened: bytes) -> bool:
    """Whether a value that follows a label directly is a password: no word, number of few digits, code or path."""
    if not looks_like_password(value) or is_technical_term(value) or _IS_CODE.search(value):
        return False
    if value.isdigit() or not mixes_letters_and_digits(value):
        return value.isdigit() or (has_symbol(value) and not is_wordy(value.strip(b"!?")) and b"," not in value)
    # `db_password_2` and `step-2` are names; a passphrase of several words with a number is none.
    joined = sum(value.count(mark) for mark in (b"-", b"_", b".", b"/", b":"))
    if not joined or not is_wordy(value) or opened.strip(b"(?"):
        return True
    return value.count(b"-") >= 2 and len(value) >= 16


def _is_no_plain_word(value: bytes) -> bool:
    return looks_random(value, 7) and not is_wordy(value)


# `f(x)`, `ENC[AES256]`, `a=b`, `**kwargs`
_IS_CODE = lazy_pattern(rb"[({]|\w\[|=[^=]|^[!*]\w+$")
_HASH = lazy_pattern(rb"(?:[0-9a-f]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def _is_hash(value: bytes) -> bool:
    return bool(_HASH.fullmatch(value))


_IN_SCRIPTS = RULES["labels_in_scripts"]["words"]
_LABELS_IN_SCRIPTS = lazy_pattern(_IN_SCRIPTS)
_MAY_HAVE_LABEL_IN_SCRIPTS = lazy_pattern(_IN_SCRIPTS.replace(" ", " ?"))
"""For the characters that are not ASCII alone."""
_AFTER_LABEL = lazy_pattern(
    r"(?P<gap>[^\n:=：＝。！!?？;；|]{0,24}?)"
    r"(?P<sign>\s?[:=：＝]|\s?[—–-]\s|[是为為はがにを는은가이을를]|\s(?:это|є|је|είναι|هي|هو|הוא|היא|है|คือ)\s|\s|)"
    r"\s{0,3}[\"'`“”「『【（(*]{0,2}(?P<value>[!-~][!-~\u4e00-\u9fff]{3,64})"
)
_ASCII_PART = lazy_pattern(r"[!-~]+(?:[\u4e00-\u9fff]{1,2}[!-~]+)*")
_HAS_ASCII_WORD = lazy_pattern(r"[A-Za-z0-9]")
_DIRECT_SIGNS = frozenset(":=：＝—–-是为為はがに는은")


def told_in_other_script(text: bytes, original: str, at: int) -> SecretFinding | None:
    """The password that follows a label in another script at that place."""
    label = _LABELS_IN_SCRIPTS.match(original, at)
    match = _AFTER_LABEL.match(original, label.end()) if label else None
    while label is not None and match is not None:
        start = match.start("value")
        part = _ASCII_PART.match(match["value"])
        value = _without_trailing(text[start : start + (part.end() if part else 0)].rstrip(b",'\"?"))
        sign = match["sign"].strip()
        is_direct = bool(sign) and (sign in _DIRECT_SIGNS or len(sign) > 1)
        # `пароль от сервера: ...`; in `密码在 step-2：...` a name comes between.
        is_beside = is_direct and not _HAS_ASCII_WORD.search(match["gap"])
        # A word with a number, as `step-2` is, is a password if it is capitalised and is beside the label.
        is_capitalised = bool(_IS_CAPITALISED.match(value)) and mixes_letters_and_digits(value) and not match["gap"]
        is_close = is_beside or is_capitalised
        if _is_told(value, b"`" if is_close else b"") and (is_direct or is_capitalised or _is_no_plain_word(value)):
            return SecretFinding(start, start + len(value), "password")
        # `пароль от root ...`: the first ASCII word may name whose password it is.
        following = match.end()
        if is_direct or original[following : following + 1] not in (" ", "\u3000") or match.end() - label.end() > 40:
            return None
        match = _AFTER_LABEL.match(original, following)
    return None


def is_secret_cell(value: bytes) -> bool:
    """Whether the cell of a column of passwords, secrets or tokens is one."""
    return (
        not is_placeholder(value) and not _IS_CODE.search(value) and (_is_told(value, b"`") or looks_random(value, 12))
    )


# -- tables -----------------------------------------------------------------------------------------------------------

_NAME_ENDS = lazy_pattern(
    rb"[a-z?]{0,8}(?:[_ ](?:value|key|2))?[\"'`*\\]{0,4}[ \t]{0,60}(?:[|,;\t\r\n]|[ ]{2}|\\[nrt]|\Z)"
)
_DELIMITERS = (b"|", b"\t", b";", b",")
_HEADER_CELL = lazy_pattern(rb"[\s\"'`*]*[\w?][\w?() ./-]{0,40}[\s\"'`*]*")
_CODE_CHARS = rb"{}\[\]=<>$@!^~&%:#"
_IS_CODE_LINE = lazy_pattern(rb"[%b]|\([^)]*[,|]" % _CODE_CHARS)
# The rest of a header's line from a name on. Tested first, because the line of most names is code.
_ENDS_HEADER = lazy_pattern(rb"(?:[^\n\\%b]|\\(?!n)){0,400}+(?:\\n|\n|\Z)" % _CODE_CHARS)
_RULE = lazy_pattern(rb"[\s|+:=-]*-{2,}[\s|+:=-]*")
_MOST_ROWS = 5_000
_LONGEST_LINE = 2_000
_LONGEST_HEADER = 400
_STRING_BEGINS = (b'": "', b'":"')
_CELL_EDGES = b" \t\r\"'`*\\"


def secrets_in_tables(text: bytes, folded: bytes, places: Sequence[int]) -> list[SecretFinding]:
    """The secrets of the tables whose header, or one of whose rows, has a name at one of these places."""
    names = [at for at in places if _NAME_ENDS.match(folded, at) and _ENDS_HEADER.match(text, at)]
    lines = _Lines(text) if names else None
    return [finding for at in names for finding in _cells(lines, at)] if lines else []


class _Lines:
    """Lines of a text by position; `\\n` written out ends a line too, and counts for two characters."""

    def __init__(self, text: bytes) -> None:
        self.text = text.replace(b"\\n", b" \n").replace(b"\\t", b" \t")

    def around(self, at: int) -> tuple[int, int]:
        end = self.text.find(b"\n", at, at + _LONGEST_LINE)
        return self.text.rfind(b"\n", max(0, at - _LONGEST_LINE), at) + 1, len(self.text) if end < 0 else end

    def after(self, end: int) -> tuple[int, int] | None:
        return self.around(end + 1) if end + 1 < len(self.text) else None


class _Header(NamedTuple):
    """A header, or a row of names and values: where it starts and ends, and its cells, with the column of the name.

    Where blanks align the cells nothing separates them, and none are returned.
    """

    first: int
    last: int
    delimiter: bytes
    cells: list[tuple[int, int]]
    column: int


def _header(lines: _Lines, at: int) -> _Header | None:
    """The header or row with a name at that place; None where the line is something else."""
    first, last = lines.around(at)
    # The table may be a string of JSON, whose name precedes the header.
    for mark in _STRING_BEGINS:
        if (begins := lines.text.rfind(mark, first, at)) >= 0:
            first = begins + len(mark)
    # Other text may precede a header on its line: `Here they are: user,password`.
    first = max(first, lines.text.rfind(b": ", first, at) + 2) if b": " in lines.text[first:at] else first
    header = lines.text[first:last]
    if len(header) > _LONGEST_HEADER or _IS_CODE_LINE.search(header):
        return None
    delimiter = next((mark for mark in _DELIMITERS if mark in header), b"")
    if not delimiter:
        is_aligned = b"  " in header and _ALIGNED.fullmatch(header.strip(b"\r"))
        return _Header(first, last, delimiter, [], 0) if is_aligned else None
    cells = _split(header, delimiter)
    column = next((n for n, (start, end) in enumerate(cells) if first + start <= at < first + end), -1)
    are_names = all(_HEADER_CELL.fullmatch(header[a:b]) for a, b in cells if header[a:b].strip() or delimiter != b"|")
    return _Header(first, last, delimiter, cells, column) if column >= 0 and len(cells) >= 2 and are_names else None


def _cells(lines: _Lines, at: int) -> list[SecretFinding]:
    """The secrets of the table whose header, or row, has a name at that place."""
    header = _header(lines, at)
    if header is None:
        return []
    first, last, delimiter, cells, column = header
    if not delimiter:
        return list(_below(lines, at, last))
    row = lines.after(last)
    if delimiter == b"|" and not (row and _RULE.fullmatch(lines.text[slice(*row)])):
        return _beside(lines, first, cells, column)
    found: list[SecretFinding] = []
    for _ in range(_MOST_ROWS):
        if row is None:
            break
        line = lines.text[slice(*row)]
        if not _RULE.fullmatch(line):
            values = _split(line, delimiter)
            if len(values) != len(cells) or len(line) > _LONGEST_LINE:
                break
            found += _cell_finding(lines.text, row[0] + values[column][0], row[0] + values[column][1])
        row = lines.after(row[1])
    return found


_ALIGNED = lazy_pattern(rb" *\S+(?: \S+)?(?: {2,}\S+(?: \S+)?)+ *")
_WORD_IN_ROW = lazy_pattern(rb"\S+")


def _below(lines: _Lines, at: int, last: int) -> Iterator[SecretFinding]:
    """The words below a name, in a table whose columns are aligned with blanks."""
    begins = lines.text.rfind(b"\n", 0, at) + 1
    # The column begins with the word of the header, of which the label may be the end.
    column = max(lines.text.rfind(b" ", begins, at), begins - 1) + 1 - begins
    row = lines.after(last)
    for _ in range(_MOST_ROWS):
        line = lines.text[slice(*row)] if row else b""
        if row is None or len(line) > _LONGEST_LINE or not line.strip():
            return
        if not _RULE.fullmatch(line):
            word = _WORD_IN_ROW.match(line, column)
            if (
                word is None
                or not _ALIGNED.fullmatch(line.strip(b"\r"))
                or (column and line[column - 1 : column] != b" ")
            ):
                return
            yield from _cell_finding(lines.text, row[0] + word.start(), row[0] + word.end())
        row = lines.after(row[1])


def _beside(lines: _Lines, first: int, cells: list[tuple[int, int]], column: int) -> list[SecretFinding]:
    """The cell beside a name, in a table of names and values."""
    if column + 1 >= len(cells):
        return []
    start, end = cells[column + 1]
    return list(_cell_finding(lines.text, first + start, first + end))


def _cell_finding(text: bytes, start: int, end: int) -> Iterator[SecretFinding]:
    cell = text[start:end]
    start += len(cell) - len(cell.lstrip(_CELL_EDGES))
    value = cell.strip(_CELL_EDGES)
    # Of what is longer or has blanks no cell is a secret unless one of its words is.
    if value and len(value) <= 256 and b" " not in value and is_secret_cell(value):
        yield SecretFinding(start, start + len(value), "password")


def _split(line: bytes, delimiter: bytes) -> list[tuple[int, int]]:
    """Start and end of each cell. A delimiter in double quotes separates nothing in CSV."""
    if delimiter != b"|" and b'"' in line:
        marks = [match.start() for match in _CSV_DELIMITER[delimiter].finditer(line) if match[1] is not None]
    else:
        marks = [at for at in range(len(line)) if line[at : at + 1] == delimiter]
    starts = [0, *(mark + 1 for mark in marks)]
    return list(zip(starts, (*marks, len(line)), strict=True))


_CSV_DELIMITER = {
    mark: lazy_pattern(rb"\\?\"(?:[^\"\\]|\"\"|\\[^\"])*\\?\"|(%b)" % re.escape(mark)) for mark in _DELIMITERS
}


_JOINS_CELLS = (b",", b">")
_PASSWORD_WORDS = (b"pass", b"pwd", b"pw", b"psk")


def named_secrets(searched: SearchedText) -> list[SecretFinding]:
    """The values after the names of secrets, in no particular order."""
    found, others = _after_names(searched)
    return [*found, *secrets_in_tables(searched.raw, searched.folded, others)] if others else found


def _after_names(searched: SearchedText) -> tuple[list[SecretFinding], list[int]]:
    """What is found beside the names of secrets, and the places of the names beside which there is nothing."""
    text, folded = searched.raw, searched.folded
    found: list[SecretFinding] = []
    others: list[int] = []
    for word, at in _NAMES.found_in(searched):
        place = _ASSIGNMENTS[word].match(folded, at)
        if place is None:
            continue
        finding = None
        if (sign := place["sign"]) is not None or place["space"] is not None:
            finding = assigned_secret(text, place)
            # `mot de passe :` is no assignment, but a sentence.
            if sign is not None and sign not in _JOINS_CELLS and place["tail"] != b"e":
                if finding is not None:
                    found.append(finding)
                continue
        if finding is None:
            finding = set_without_sign(text, place)
        if finding is None and word in _PASSWORD_WORDS:
            finding = told_password(text, folded, at, word) or value_before_label(text, at) or echoed_password(text, at)
        elif finding is None:
            finding = told_token(text, folded, at, word)
        if finding is not None:
            found.append(finding)
        else:
            others.append(at)
    for at, word in _foreign_labels(searched):
        if finding := told_password(text, folded, at, word) if word else told_in_other_script(text, searched.text, at):
            found.append(finding)
        else:
            others.append(at)
    return found, others


def _foreign_labels(searched: SearchedText) -> Iterator[tuple[int, bytes]]:
    """Where a text has a label in another language, and which; an empty one for other scripts."""
    others = searched.not_ascii
    has_accent = bool(others and _HAS_ACCENT.search(others))
    for word, at in _OTHER_LABELS.found_in(searched):
        if has_accent or word not in _ACCENTED:
            yield at, word
    if others and _MAY_HAVE_LABEL_IN_SCRIPTS.search(others):
        for match in _LABELS_IN_SCRIPTS.finditer(searched.text):
            yield match.start(), b""


# -- assignments ------------------------------------------------------------------------------------------------------

# How a value is joined to its name: by `=`, `:`, `=>`, `==`; as `name: TOKEN, value: ...`; as in
# `getenv("TOKEN", "...")`; as in `<token>...</token>`. A type or `default=` may precede the value.
_ASSIGNMENT_SIGN = (
    rb"(?P<gap>[ \t]{0,8}+)"
    rb"(?P<sign>[=:]{1,3}>?(?:[ ]?[|>][-+]?[ ]{0,2}(?:\r?\n|\\n)[ ]{1,40})?"
    rb"|,?\s{0,40}+(?:-[ ])?(?:%(q)b)?value(?:%(q)b)?[ \t]{0,4}+[:=]|,|>)"
    rb"[ \t]{0,8}+(?:[a-z_&][a-z_.|\[\]&' ]{0,30}=[ \t]{0,4}+)?"
) % {b"q": QUOTE}
# On a command line and in SQL a space may join: `--token ...`, `sshpass -p ...`, `PASSWORD '...'`.
_SPACE_AS_SIGN = (
    rb"(?P<space>(?(dash)[ \t]{1,4}+(?!-)|(?!))"
    rb"|(?<=password)[ \t]{1,4}+(?=')|(?<=sshpass)[ \t]{1,4}+-p[ \t]{0,2})"
)


def _assignment(word: bytes, shortest: int, only_if: bytes, before: bytes, other_forms: bytes) -> re.Pattern[bytes]:
    """Finds a word with an assignment behind it, and consumes only the word: the value may contain the next name."""
    tail = rb"(?:(?<=-%b)(?P<dash>))?(?P<tail>[a-z0-9_.\-]{0,40}+)(?:%b|\]){0,3}" % (word, QUOTE)
    value = (
        rb"(?:[fbru]{0,2}(?P<quote>%(quote)b)"
        rb"(?P<quoted>(?:[^\"'`\\\s]|\\/|[ ](?=[^\"'`\\\s])){%(shortest)d,1024}+)(?P=quote)"
        rb"|(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\=]{%(shortest)d,512}+={0,3})(?P<after>.?))"
    ) % {b"quote": QUOTE, b"shortest": shortest}
    # A placeholder is no name.
    return lazy_pattern(
        rb"(?s)%b(?<!\[redacted:%b)%b(?=%b%b(?:%b|%b)%b|%b)"
        % (word, word, only_if, before, tail, _ASSIGNMENT_SIGN, _SPACE_AS_SIGN, value, other_forms)
    )


_ASSIGNMENTS = {
    word.encode(): _assignment(word.encode(), shortest, *map(expanded, patterns))
    for word, (shortest, *patterns) in RULES["names"]["words"].items()
}
_PLACEHOLDER = PLACEHOLDER_START.encode("ascii")
_LONGEST_NAME = 64
_NAME_CHARS = bytes(ord("a" if (chr(byte).isalnum() and byte < 128) or byte in b"_.-" else " ") for byte in range(256))


@dataclass(frozen=True, slots=True)
class NamedSecretKind:
    """The names of one kind of secret. `human_chosen`: people choose such values, so a short one counts too."""

    kind: str
    name: re.Pattern[bytes]
    human_chosen: bool = False


NAMED_KINDS = tuple(
    NamedSecretKind(kind, lazy_pattern(expanded(name)), is_chosen) for kind, is_chosen, name in RULES["names"]["kinds"]
)
_QUERY_KEY = NAMED_KINDS[-1]
_NOT_A_SECRET = lazy_pattern(RULES["names"]["not_secret"].encode())
# An environment variable may name any service, and holds a value, never code.
_KEY_IN_ENVIRONMENT = lazy_pattern(rb"[A-Z][A-Z0-9_]{1,60}_KEY")
_NO_KEY_IN_ENVIRONMENT = lazy_pattern(rb"PUBLIC|PUB_|CACHE|PRIMARY|FOREIGN|SORT|PARTITION|HASH_|SITE|ROW|INDEX")


_NAMES = Literals(_ASSIGNMENTS)
_OTHER_LABELS = Literals((*_FOREIGN, *_ACCENTED))


# Set without a sign: `set -gx NAME value` (fish), `setenv NAME value` (csh), `ENV NAME value` (Dockerfile).
_SET_WITHOUT_SIGN = lazy_pattern(
    rb"(?:^|[\s;&\"'nt])(?:set[ ]+-[a-zA-Z-]{1,8}|(?:set)?env|ENV|config[ ]set|#define)[ \t]+(?:\S{1,60}[/:])?\Z"
)
# Tested first, because most names follow something else.
_BEFORE_SET_NAME = (b" ", b"\t", b'"', b"\\", b":")
_MAY_SET = lazy_pattern(rb"set|env|ENV|#define|enable|username|privilege|variable")
_VALUE_AFTER_BLANK = lazy_pattern(
    rb"[a-z0-9_]*[ \t]{1,4}(?:\\{0,4}(?P<quote>[\"'])(?P<quoted>[^\"'\n\\]{4,256})"
    rb"|(?P<bare>[^\s\"'`|;&<>=\\-][^\s\"'`|;&<>\\]{3,256}))",
    re.IGNORECASE,
)
# `bind_pw ...` alone on its line, as in the settings of many servers.
_VALUE_OF_SETTING = lazy_pattern(
    rb"[A-Za-z0-9_]*[ \t]{1,8}(?P<quoted>(?!))?(?P<bare>(?=\S{0,100}[0-9])(?=\S{0,100}[A-Za-z])"
    rb"[^\s\"'(){}=:<>]{10,128})[ \t]*(?:\r?\n|\Z)"
)
# In HCL the name of a variable precedes a block, and its value inside.
_DEFAULT_IN_BLOCK = lazy_pattern(
    rb"[\w-]*%(q)b[ ]{0,4}\{[^{}\0]{0,300}?default[ ]{0,12}=[ ]{0,4}%(q)b(?P<quoted>[^\"'\n\\]{4,256})" % {b"q": QUOTE},
    re.IGNORECASE,
)


def set_without_sign(text: bytes, place: re.Match[bytes]) -> SecretFinding | None:
    """The value of a variable that is set by a command or a block, whose name ends at that place."""
    name_start = name_start_of(text, place.start())
    before = text[max(0, name_start - 80) : name_start]
    begins_line, is_setting = not before.rpartition(b"\n")[2].strip(), False
    is_option = text.startswith(b"--", name_start)
    if not begins_line and not is_option and (before[-1:] not in _BEFORE_SET_NAME or not _MAY_SET.search(before)):
        return None
    if is_option or _SET_WITHOUT_SIGN.search(before):
        value = _VALUE_AFTER_BLANK.match(text, place.end())
    elif before.rstrip(b'"\\').endswith(b"variable "):
        value = _DEFAULT_IN_BLOCK.match(text, place.end())
    else:
        is_setting = begins_line
        value = _VALUE_OF_SETTING.match(text, place.end()) if begins_line else None
    end = _NAME_END.match(text, place.end())
    if value is None or end is None or not (named := kind_of(text[name_start : end.end()])):
        return None
    start, stop = value.span("quoted" if value["quoted"] is not None else "bare")
    secret = text[start:stop]
    if is_setting:
        is_secret = looks_random(secret, 10)
    else:
        is_secret = _is_secret_when_quoted(named, secret) or looks_like_password(secret)
    return SecretFinding(start, stop, named.kind) if is_secret else None


_NAME_END = lazy_pattern(rb"[A-Za-z0-9_-]*")


def secret_under(name: str, value: str) -> str | None:
    """The kind of secret that `value` is, as the value of the key `name`; None if it is none."""
    raw = name.encode("ascii", "replace")
    named = kind_of(raw)
    if named is None or " " in value.strip():
        return None
    written = value.strip().encode("ascii", "replace")
    return named.kind if written and _is_secret_when_quoted(named, written) else None


def assigned_secret(text: bytes, match: re.Match[bytes]) -> SecretFinding | None:
    """The value that is assigned to a name of a secret."""
    is_bare = match["quoted"] is None
    start, end = match.span("bare" if is_bare else "quoted")
    value = text[start:end]
    if is_bare and value.isalpha() and len(value) < _FEWEST_LETTERS and not text[match.start() : match.end()].isupper():
        return None  # a word, as most values in code are
    name_start = name_start_of(text, match.start())
    name = text[name_start : match.end("tail")]
    if name.lower() == b"key" and (
        text[name_start - 1 : name_start] in (b"?", b"&") or _is_after_api(text, name_start)
    ):
        named: NamedSecretKind | None = _QUERY_KEY
    else:
        named = kind_of(name)
    if match["space"] is not None and not (name.startswith(b"--") or match["quote"] == b"'" or name.endswith(b"pass")):
        return None
    # `https://x-access-token:...@host` is a URL with a password, not an assignment.
    if named is None or text.endswith((_PLACEHOLDER, b"://"), 0, name_start):
        return None
    if is_bare:
        after = match["after"]
        value = value.rstrip(b".:") if after.isspace() or not after else value
        is_secret = _is_secret_when_bare(named, name, value, match)
    else:
        # In a list of arguments the text after a name need not be its value.
        is_argument = match["sign"] == b"," and not _SETS_VALUE.search(text[max(0, name_start - 24) : name_start])
        is_secret = (
            looks_random(value, 16) and b" " not in value if is_argument else _is_secret_when_quoted(named, value)
        )
    return SecretFinding(start, start + len(value), named.kind) if is_secret else None


# So many make a value that looks random, without a digit.
_FEWEST_LETTERS = 20


def _is_after_api(text: bytes, name_start: int) -> bool:
    return text[max(0, name_start - 8) : name_start].lower().endswith((b"api ", b"access ", b"secret ", b"private "))


def name_start_of(text: bytes, at: int) -> int:
    earliest = max(0, at - _LONGEST_NAME)
    return earliest + text[earliest:at].translate(_NAME_CHARS).rfind(b" ") + 1


@lru_cache(maxsize=4_096)
def kind_of(name: bytes) -> NamedSecretKind | None:
    folded = name.lower().replace(b"-", b"_").replace(b".", b"_").strip(b"_")
    if _NOT_A_SECRET.fullmatch(folded):
        return None
    for named in NAMED_KINDS:
        if named.name.fullmatch(folded):
            return named
    if _KEY_IN_ENVIRONMENT.fullmatch(name) and not _NO_KEY_IN_ENVIRONMENT.search(name):
        return NAMED_KINDS[-1]
    return None


def _is_secret_when_quoted(named: NamedSecretKind, value: bytes) -> bool:
    if b" " in value:
        # A sentence is no password, also if it has a number in it.
        words = value.split()
        is_short = len(words) <= _MOST_WORDS and any(map(_is_no_word, words))
        return named.human_chosen and (is_short or _is_phrase(words))
    if named.human_chosen and not (value.startswith((b"#", b".")) and is_wordy(value[1:])):
        return looks_random(value) or looks_like_password(value, 6 if named.kind == "password" else 8)
    return looks_random(value) and not value.isdigit()


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
        return (looks_random(value) or looks_like_password(value)) and not (value.isdigit() and len(value) < 6)
    return looks_random(value, 8) and (has_symbol(value) or mixes_letters_and_digits(value))


# `define('DB_PASSWORD', '...')`, `localStorage.setItem('token', '...')`
_SETS_VALUE = lazy_pattern(rb"(?i)\b(?:define|set\w{0,8}|put\w{0,8})\([ ]?\\{0,4}[\"']\Z")
_MOST_WORDS = 3
_PHRASE_WORD = lazy_pattern(rb"[A-Za-z0-9-]+")


def _is_phrase(words: Sequence[bytes]) -> bool:
    """Words that make no sentence, with a number among them: `correct horse 9 staple`."""
    return (
        _MOST_WORDS <= len(words) <= 2 * _MOST_WORDS
        and all(map(_PHRASE_WORD.fullmatch, words))
        and any(word.isdigit() or mixes_letters_and_digits(word) for word in words)
        and sum(map(len, words)) >= 12
        and not any(
            word.lower() in SENTENCE_WORDS or (is_technical_term(word) and not word.isdigit()) for word in words
        )
    )


def _is_no_word(word: bytes) -> bool:
    return (
        len(word) >= 4 and mixes_letters_and_digits(word) and not is_technical_term(word) and not is_placeholder(word)
    )


_OPENS_CODE = (b"(", b"[", b"{", b"<")
_ENDS_ARGUMENT = (b",", b")", b"}", b"]", b"|")


def _is_plain_setting(name: bytes, match: re.Match[bytes]) -> bool:
    """A shell, .env, YAML, query or connection-string setting, where the value is no expression."""
    if match["sign"] == b">":
        return bool(match["after"] == b"<")
    if match["after"] in _ENDS_ARGUMENT:
        return False
    return match["sign"] != b"=" or name.isupper() or not match["gap"]
