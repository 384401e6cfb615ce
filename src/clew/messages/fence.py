"""Text that others wrote, made safe to are in a prompt: it cannot close its own fence, hide, or forge a line."""

from __future__ import annotations

import hashlib
import re

_CODE_CHARS = 6
# Lone surrogates cannot be sent; control characters and marks that turn or hide text mean nothing in a text that is
# meant to be read.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_NOT_IN_LABEL = re.compile(r'["<>\s]+')


def fenced(label: str, text: str) -> str:
    """The text between an opening tag that names its source, and a closing tag that does not occur in it.

    The same label and text give the same bytes in every process.
    """
    inside = without_invisible(text)
    name = one_line(label)
    code = _code(name, inside)
    return f'<data-{code} from="{name}">\n{inside}\n</data-{code}>'


def without_invisible(text: str) -> str:
    """The text without control characters, marks that turn or hide text, and lone surrogates; CRLF becomes LF."""
    return _INVISIBLE.sub("", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """A name or path that stays within its quotes and its line."""
    return _NOT_IN_LABEL.sub(" ", without_invisible(text)).strip()


def _code(label: str, text: str) -> str:
    digest = hashlib.blake2b(f"{label}\n{text}".encode(), digest_size=16)
    while True:
        code = digest.hexdigest()[:_CODE_CHARS]
        # A text may hold its own code; then the next digest gives another code.
        if f"data-{code}" not in text:
            return code
        digest.update(b"again")
