"""Secrets in the most frequent forms, each decided by one expression: `password=...`, `password is ...`, `token=...`.

What is found here the other finders would find too. It is cut out before they run, so that a text with a secret in
every line is not slower than it has to be. The expressions are for text in lower case, begin with a literal, and take
only values of which the checks of `values` need not be asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from clew.redact.by_name import kind_of, name_start_of
from clew.redact.catalog import CATALOG
from clew.redact.values import PLACEHOLDER_START

FrequentSecret: TypeAlias = tuple[int, int, int, str]
"""Where its name starts, where its value starts and ends, and its kind."""


def frequent_secrets(text: bytes, folded: bytes, words: Sequence[bytes]) -> list[FrequentSecret]:
    """The secrets in the most frequent forms, in order.

    `folded` is the text in lower case, and `words` are the words of names that it has. Tokens are found here only if
    the text begins with some: others are found soon enough.
    """
    found = [secret for word in _PASSWORDS if word in words for secret in _passwords(folded, word)]
    found.sort()
    dense = [word for word in _TOKENS if word in words and _begins_with_some(folded, word)]
    if tokens := [token for word in dense for token in _tokens(text, folded, word)]:
        found = _apart(sorted((*found, *tokens)))
    return found


def _apart(found: Sequence[FrequentSecret]) -> list[FrequentSecret]:
    """Those that do not overlap the one before: `secret_key=...` is found by both its words."""
    apart: list[FrequentSecret] = []
    end = 0
    for secret in found:
        if secret[0] >= end:
            apart.append(secret)
            end = secret[2]
    return apart


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
# - `=` between blanks, as in code, and letters with digits among them;
# - for the word password alone, `is`, and letters with digits among them.
_VALUE = (
    rb"(?=[^a-z\s]{0,40}[a-z])(?=\S{6})[!#]?+(?![_+%*$-])"
    rb"(?:[a-z_+-]*+[0-9]++(?=[_+-]))*+[a-z_+-]*+(?:[0-9]++[a-z]|[0-9]*+[!#^~@%*$])[a-z0-9_+!#^~@%*$-]*+"
    rb"|(?!(?:my|new|old|the|some|please|dummy|your|change|replace|place|insert|redacted|masked|example|sample|xx|"
    rb"todo|pass|secret|token|key|value|string|text|test|user|admin|root|guest|foo|bar))[a-z]{4,24}+[0-9]{1,12}+"
)
_ASSIGNED = (
    rb"[\"']?(?:[=:][ ]?(?:(?P<quote>[\"'])(?P<quoted>%b)(?P=quote)|(?P<bare>%b)(?=[\s,;}&]|\Z))"
    rb"|[ ]{1,4}=[ ]{1,4}(?P<mark>[\"']?)(?P<spaced>(?=[a-z0-9]{8,64}(?P=mark)(?:[\s,;)}&]|\Z))"
    rb"[a-z]*+[0-9]++[a-z][a-z0-9]*+))"
) % (_VALUE, _VALUE)
_TOLD = (
    rb"[ ]is[ ](?P<told>(?=[a-z0-9]{6,19}[.,;]?(?:\s(?!/[ ])|\Z))(?!(?:%b)[0-9])"
    rb"(?:[a-z]++[0-9]++[a-z]|[0-9]++(?!x[0-9])[a-z]++[0-9]|(?!%b)[a-z]{4,16}+[0-9]++(?![a-z]))[a-z0-9]*+)"
) % (_TECHNICAL_NAMES, _MENTIONS_PLACEHOLDER)


def _password_named(begins: bytes, ends: bytes) -> re.Pattern[bytes]:
    """The name begins with a literal, which makes the expression fast; what comes before it says whose it is."""
    named = rb"(?:(?<![a-z0-9_.$?/\\-]%b)|(?<![$?/\\]%b)%b)" % (begins, begins, _not_after(_OTHER_PREFIXES, begins))
    told = rb"|(?<![a-z0-9_.$?/\\-]%b)%b%b" % (begins, ends, _TOLD) if ends else b""
    return re.compile(rb"%b(?:%b%b%b%b)" % (begins, named, ends, _ASSIGNED, told))


_PASSWORDS = {b"passw": _password_named(b"passw", b"(?:or)?d"), b"pwd": _password_named(b"pwd", b"")}
# What makes a value a placeholder all the same.
_PLACEHOLDER_MARKS = (b"***", b"###", b"xxxxxx", b"%s", b"%d")


def _passwords(folded: bytes, word: bytes) -> list[FrequentSecret]:
    found = [
        (match.start(), *match.span(match.lastindex or 0), "password")
        for match in _PASSWORDS[word].finditer(folded)
        # With blanks it may be code, whose value has to be random.
        if match.lastgroup != "spaced" or len(set(match["spaced"])) >= _FEWEST_CHARS
    ]
    for mark in _PLACEHOLDER_MARKS if found else ():
        if mark in folded:
            found = [secret for secret in found if mark not in folded[secret[1] : secret[2]]]
    return found


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
    word: re.compile(_TOKEN % (before, _OTHER_KINDS))
    for word, before in ((b"token", b"token"), (b"secret", b"secret"), (b"key", rb"key(?<=[a-z0-9_.-]key)"))
}
FREQUENT_NAMES = frozenset((*_PASSWORDS, *_TOKENS))
"""Of these words of names a text must have one."""
# In these a token has another kind, and what comes before it tells that of what follows.
_OTHER_CONTEXTS = (b"cookie", b"authorization", b"bearer")
_NOT_A_NAME = (PLACEHOLDER_START.encode("ascii"), b"://")
_FEWEST_CHARS = 6


def _begins_with_some(folded: bytes, word: bytes) -> bool:
    return len(_TOKENS[word].findall(folded, 0, _FIRST_CHARS)) >= _SOME


_FIRST_CHARS = 4_096
_SOME = 4


def _tokens(text: bytes, folded: bytes, word: bytes) -> Iterator[FrequentSecret]:
    for number, match in enumerate(_TOKENS[word].finditer(folded)):
        if not number and any(context in folded for context in _OTHER_CONTEXTS):
            return
        at, (start, end) = match.start(), match.span(2)
        name_start = name_start_of(text, at)
        named = kind_of(text[name_start : at + len(word)])
        if named is None or text.endswith(_NOT_A_NAME, 0, name_start):
            continue
        value = folded[start:end]
        if b"xxxxxx" in value or b"environ" in value:
            continue
        if len(set(value[:16])) >= _FEWEST_CHARS or len(set(value)) >= _FEWEST_CHARS:
            yield name_start, start, end, named.kind
