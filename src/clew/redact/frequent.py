"""Secrets in the most frequent forms, each decided by one expression: `password=...`, `password is ...`, `token=...`.

What is found here the other finders would find too. It is cut out before they run, so that a text with a secret in
every line is not slower than it has to be. The expressions are for text in lower case, begin with a literal, and take
only values of which the checks of `values` need not be asked.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, repeat
from operator import gt

from clew.lazy import dataclass, lazy_pattern
from clew.redact.by_name import kind_of, name_starts_in
from clew.redact.catalog import CATALOG
from clew.redact.values import PLACEHOLDER_START, SecretFinding, looks_random, with_placeholders


@dataclass(frozen=True, slots=True)
class FrequentSecrets:
    """Secrets in order, by columns: of thousands a list of numbers is made much faster than as many objects."""

    names: list[int]
    """Where their names start."""
    starts: list[int]
    ends: list[int]
    kinds: list[str]

    def __len__(self) -> int:
        return len(self.starts)

    def findings(self) -> list[SecretFinding]:
        # Made without calling the class, of which there may be one every dozen bytes.
        rows = zip(self.starts, self.ends, self.kinds, strict=True)
        return list(map(tuple.__new__, repeat(SecretFinding), rows))

    def replaced_in(self, text: str) -> str:
        """The text with a placeholder for each of them."""
        return with_placeholders(text, self.starts, self.ends, self.kinds)

    def with_others(self, found: Sequence[SecretFinding]) -> FrequentSecrets | None:
        """These and others that are in order, too, without the places of names; None where some overlap."""
        if not found:
            return self
        starts: list[int] = []
        ends: list[int] = []
        kinds: list[str] = []
        done = 0
        for start, end, kind in found:
            at = bisect_right(self.starts, start, done)
            starts += self.starts[done:at]
            ends += self.ends[done:at]
            kinds += self.kinds[done:at]
            starts.append(start)
            ends.append(end)
            kinds.append(kind)
            done = at
        starts += self.starts[done:]
        ends += self.ends[done:]
        kinds += self.kinds[done:]
        return None if any(map(gt, ends, starts[1:])) else FrequentSecrets(starts, starts, ends, kinds)

    def where(self, are_some: Sequence[bool]) -> FrequentSecrets:
        """Those of which it is true."""
        if all(are_some):
            return self
        return FrequentSecrets(*(list(compress(column, are_some)) for column in self._columns()))  # type: ignore[arg-type]

    def _columns(self) -> tuple[list[int], list[int], list[int], list[str]]:
        return self.names, self.starts, self.ends, self.kinds

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[int, int, int, str]]) -> FrequentSecrets:
        names, starts, ends, kinds = map(list, zip(*rows, strict=True))
        return cls(names, starts, ends, kinds)

    def rows(self) -> Iterable[tuple[int, int, int, str]]:
        return zip(self.names, self.starts, self.ends, self.kinds, strict=True)


def frequent_secrets(text: bytes, folded: bytes, words: Sequence[bytes]) -> FrequentSecrets | None:
    """The secrets in the most frequent forms, in order; None where there are none.

    `folded` is the text in lower case, and `words` are the words of names that it has. Tokens are found here only if
    the text begins with some: others are found soon enough.
    """
    found = [_passwords(text, folded, word) for word in _PASSWORDS if word in words]
    dense = [word for word in _TOKENS if word in words and _begins_with_some(folded, word)]
    tokens = [_tokens(text, folded, word) for word in dense]
    some = [one for one in (*found, *tokens) if one]
    if len(some) <= 1:
        return some[0] if some else None
    rows = sorted(row for one in some for row in one.rows())
    return FrequentSecrets.of_rows(_apart(rows) if any(tokens) else rows)


def _apart(found: Sequence[tuple[int, int, int, str]]) -> Iterator[tuple[int, int, int, str]]:
    """Those that do not overlap the one before: `secret_key=...` is found by both its words."""
    end = 0
    for secret in found:
        if secret[0] >= end:
            yield secret
            end = secret[2]


# -- passwords --------------------------------------------------------------------------------------------------------

# With one of these before it, a name that ends in password is the name of something else.
_OTHER_PREFIXES = (
    b"next page sync last first start end max min num total is has no show hide forgot reset use require cache public "
    b"design old site request change find get set per prev previous"
).split()
# What sentences say of passwords and is none, with a number behind it: `sha256`, `utf8`, `v2`.
_TECHNICAL_NAMES = (
    rb"sha|md|base|utf|rsa|aes|ecdsa|ed|x|v|http|oauth|pbkdf|bcrypt|scrypt|argon|hmac|hs|rs|es|tls|ssl|ipv|iso|rfc|win|"
    rb"python|py|log|web|p|k|i"
)
# Of a word with a number behind it: that it is no password, but stands for one.
_MENTIONS_PLACEHOLDER = rb"[a-z]*?(?:your|changeme|changethis|replace|placeholder|dummy|insert|redacted|masked|environ)"


def _not_after(prefixes: Sequence[bytes], ending: bytes) -> bytes:
    """Looks back for none of the prefixes. Those of a length are one expression, because looking back has a width."""
    widths = sorted(set(map(len, prefixes)))
    words = (b"|".join(prefix for prefix in prefixes if len(prefix) == width) for width in widths)
    none = b"".join(rb"(?<!(?:%b)_%b)(?<!(?:%b)%b)" % (some, ending, some, ending) for some in words)
    # Most names end in other letters than all of these, which is tested first.
    ends = b"|".join(sorted({prefix[-2:] for prefix in prefixes}))
    return rb"(?:(?<!(?:%b)_%b)(?<!(?:%b)%b)|%b)" % (ends, ending, ends, ending, none)


# A name that ends in password or pwd, and behind it one of these:
# - `=` or `:`, and a value within blanks, quotes or commas that no word looks like, or a word with a number behind it
#   that is no placeholder;
# - `=` between blanks, as in code, and letters with digits among them, or a number behind them;
# - for the word password alone, `is`, and letters with digits among them.
_VALUE = (
    rb"(?=[^a-z\s]{0,40}[a-z])(?=\S{6})[!#]?+(?![_+%*$-])"
    rb"(?:[a-z_+-]*+[0-9]++(?=[_+-]))*+[a-z_+-]*+(?:[0-9]++[a-z]|[0-9]*+[!#^~@%*$])[a-z0-9_+!#^~@%*$-]*+"
    rb"|(?!(?:my|new|old|the|some|please|dummy|your|change|replace|place|insert|redacted|masked|example|sample|xx|"
    rb"todo|pass|secret|token|key|value|string|text|test|user|admin|root|guest|foo|bar))[a-z]{4,24}+[0-9]{1,12}+"
)
_BEGINS_WITH_DASH = rb"[!#]?+[_-](?=\S{5})(?:[a-z_-]*+[0-9]++(?=[_-]))*+[a-z_-]*+[0-9]++[a-z][a-z0-9_+!#^~@%*$-]*+"
_ASSIGNED = (
    rb"[\"']?(?:[=:][ ]?(?:(?P<quote>[\"'])(?P<quoted>%b)(?P=quote)|(?P<bare>%b|%b)(?=[\s,;}&]|\Z))"
    rb"|[ ]{1,4}=[ ]{1,4}(?:(?P<mark>[\"']?)(?P<spaced>(?=[a-z0-9]{8,64}(?P=mark)(?:[\s,;)}&]|\Z))"
    rb"[a-z]*+[0-9]++[a-z][a-z0-9]*+)|(?P<numbered>(?=[a-z0-9]{8,64}(?:[\s,;)}&]|\Z))[a-z]++[0-9]++)))"
) % (_VALUE, _VALUE, _BEGINS_WITH_DASH)
_TOLD = (
    rb"[ ]is[ ](?P<told>(?=[a-z0-9]{6,19}[.,;]?(?:\s(?!/[ ])|\Z))(?!(?:%b)[0-9])"
    rb"(?:[a-z]++[0-9]++[a-z]|[0-9]++(?!x[0-9])[a-z]++[0-9]|(?!%b)[a-z]{4,16}+[0-9]++(?![a-z]))[a-z0-9]*+)"
) % (_TECHNICAL_NAMES, _MENTIONS_PLACEHOLDER)


def _password_named(begins: bytes, ends: bytes) -> re.Pattern[bytes]:
    """The name begins with a literal, which makes the expression fast; what comes before it says whose it is."""
    named = rb"(?:(?<![a-z0-9_.$?/\\-]%b)|(?<![$?/\\]%b)%b)" % (begins, begins, _not_after(_OTHER_PREFIXES, begins))
    told = rb"|(?<![a-z0-9_.$?/\\-]%b)%b%b" % (begins, ends, _TOLD) if ends else b""
    return lazy_pattern(rb"%b(?:%b%b%b%b)" % (begins, named, ends, _ASSIGNED, told))


_PASSWORDS = {b"passw": _password_named(b"passw", b"(?:or)?d"), b"pwd": _password_named(b"pwd", b"")}
# What makes a value a placeholder all the same.
_PLACEHOLDER_MARKS = (b"***", b"###", b"xxxxxx", b"%s", b"%d")


def _passwords(text: bytes, folded: bytes, word: bytes) -> FrequentSecrets:
    expression = _PASSWORDS[word]
    spaced, numbered = expression.groupindex["spaced"], expression.groupindex["numbered"]
    names: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    for match in expression.finditer(folded):
        group = match.lastindex or 0
        start, end = match.span(group)
        # With blanks it may be code, whose value has to be random; letters and a number may be a word.
        if group == spaced:
            if len(set(text[start : start + 8])) < _FEWEST_CHARS and len(set(text[start:end])) < _FEWEST_CHARS:
                continue
        elif group == numbered and not looks_random(text[start:end], _FEWEST_CHARS_IN_CODE):
            continue
        names.append(match.start())
        starts.append(start)
        ends.append(end)
    found = FrequentSecrets(names, starts, ends, ["password"] * len(names))
    for mark in _PLACEHOLDER_MARKS if names else ():
        if mark in folded:
            found = found.where([mark not in folded[a:b] for a, b in zip(found.starts, found.ends, strict=True)])
    return found


_FEWEST_CHARS = 6
_FEWEST_CHARS_IN_CODE = 8


# -- tokens, secrets and keys -----------------------------------------------------------------------------------------

# No key of the catalog, whose kind is told by its shape, and shorter than a line of a private key.
_ALPHANUMERIC_KINDS = [kind for kind in CATALOG if all(part.isalnum() for part in kind.body if isinstance(part, str))]
_OTHER_KINDS = b"|".join(
    sorted({start.lower().encode("ascii") for kind in _ALPHANUMERIC_KINDS for start in kind.starts if start.isalnum()})
)
# Of what a private key begins with nothing is taken.
_TOKEN = (
    rb"%b[\"']?(?:[ ]{0,2}=[ ]{0,2}|:[ ]?)(?P<quote>[\"'])?"
    rb"(?=[a-z0-9]{16,63}(?(quote)(?P=quote)|(?:[\s,;}&]|\Z)))(?!%b|m[chfi][a-z0-9]{38}|b3bl|ls0t)"
    rb"(?P<value>[a-z]*+[0-9]++[a-z][a-z0-9]*+)"
)
_TOKENS = {
    word: lazy_pattern(_TOKEN % (before, _OTHER_KINDS))
    for word, before in ((b"token", b"token"), (b"secret", b"secret"), (b"key", rb"key(?<=[a-z0-9_.-]key)"))
}
FREQUENT_NAMES = frozenset((*_PASSWORDS, *_TOKENS))
"""Of these words of names a text must have one."""
# In these a token has another kind, and what comes before it tells that of what follows.
_OTHER_CONTEXTS = (b"cookie", b"authorization", b"bearer")
_NOT_A_NAME = (PLACEHOLDER_START.encode("ascii"), b"://")


def _begins_with_some(folded: bytes, word: bytes) -> bool:
    return len(_TOKENS[word].findall(folded, 0, _FIRST_CHARS)) >= _SOME


_FIRST_CHARS = 4_096
_SOME = 4


def _tokens(text: bytes, folded: bytes, word: bytes) -> FrequentSecrets:
    found = FrequentSecrets([], [], [], [])
    if any(context in folded for context in _OTHER_CONTEXTS):
        return found
    placeholders = [mark for mark in (b"xxxxxx", b"environ") if mark in folded]
    name_start_of = name_starts_in(text)
    for match in _TOKENS[word].finditer(folded):
        at, (start, end) = match.start(), match.span(2)
        name_start = name_start_of(at)
        named = kind_of(text[name_start : at + len(word)])
        if named is None or text.endswith(_NOT_A_NAME, 0, name_start):
            continue
        value = folded[start:end]
        if placeholders and any(mark in value for mark in placeholders):
            continue
        if len(set(value[:16])) >= _FEWEST_CHARS or len(set(value)) >= _FEWEST_CHARS:
            found.names.append(name_start)
            found.starts.append(start)
            found.ends.append(end)
            found.kinds.append(named.kind)
    return found
