"""Secrets out: of a text, or of the messages of a conversation.

Takes text, gives back the text with typed placeholders (`[REDACTED:github-token]`) and where each secret stood;
never the secrets. Does not know where the text came from nor where it goes, and does not log.
"""

from __future__ import annotations

from clew.redact.catalog import CATALOG
from clew.redact.findings import Finding, Redacted
from clew.redact.messages import redact_arguments, redact_messages
from clew.redact.redaction import redact, redact_text
from clew.redact.shape import Kind

__all__ = [
    "CATALOG",
    "Finding",
    "Kind",
    "Redacted",
    "redact",
    "redact_arguments",
    "redact_messages",
    "redact_text",
]
