"""Keeps the text of others apart from ours: a fence that the text inside cannot close, whatever it says.

Knows text only. The same label and text give the same fence, byte for byte, in every process.
"""

from __future__ import annotations

import hashlib
import re

_CODE_CHARS = 6
# Half characters cannot be sent; control characters and marks that turn or hide text say nothing to a model that is
# meant for it.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_NO_LABEL = re.compile(r'["<>\s]+')


def fenced(label: str, text: str) -> str:
    """The text between an opening that names where it is from, and a closing that does not occur in it."""
    inside = visible(text)
    name = one_line(label)
    code = _code(name, inside)
    return f'<data-{code} from="{name}">\n{inside}\n</data-{code}>'


def visible(text: str) -> str:
    """The text without what nobody would see: control characters, marks that turn or hide text, half characters."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """A name or path that stays within its quotes and its line."""
    return _NO_LABEL.sub(" ", visible(text)).strip()


def _code(label: str, text: str) -> str:
    digest = hashlib.blake2b(f"{label}\n{text}".encode(), digest_size=16)
    while True:
        code = digest.hexdigest()[:_CODE_CHARS]
        # Whoever finds a text that holds its own code has not found the next one with it.
        if f"data-{code}" not in text:
            return code
        digest.update(b"again")
