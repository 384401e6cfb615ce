"""Secrets after their name, in every form in which a name and a value come together.

The words that end such names are searched for once; at each place the forms are tried in order: an assignment, a
command that sets a variable, a sentence, a table. The names in other languages come in sentences and tables alone.
"""

from __future__ import annotations

from clew.redact.assignments import assigned_secret, names_of_secrets, set_without_sign
from clew.redact.in_commands import echoed_password
from clew.redact.in_prose import (
    foreign_labels,
    told_in_other_script,
    told_password,
    told_token,
    value_before_label,
)
from clew.redact.in_tables import TableReader
from clew.redact.values import SecretFinding

_JOINS_CELLS = (b",", b">")
_PASSWORD_WORDS = (b"pass", b"pwd")


def named_secrets(text: bytes, folded: bytes, original: str) -> list[SecretFinding]:
    """The values after the names of secrets, in no particular order.

    `text` has one byte for each character of `original`, and `folded` is the same in lower case.
    """
    found: list[SecretFinding] = []
    tables = TableReader(text, folded)
    for word, place in names_of_secrets(folded):
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
            at = place.start()
            finding = told_password(text, folded, at, word) or value_before_label(text, at) or echoed_password(text, at)
        elif finding is None:
            finding = told_token(text, folded, place.start(), word)
        if finding is not None:
            found.append(finding)
        else:
            tables.read(place.start())
    for at, word in foreign_labels(folded, original):
        if finding := told_password(text, folded, at, word) if word else told_in_other_script(text, original, at):
            found.append(finding)
        else:
            tables.read(at)
    return [*found, *tables.found]
