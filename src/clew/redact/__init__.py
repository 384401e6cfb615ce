"""Redaction of secrets in texts and messages.

The result has a placeholder for each secret (`[REDACTED:github-token]`); nothing here logs or returns a secret.
"""

from __future__ import annotations

from clew.redact.catalog import CATALOG, SecretKind
from clew.redact.redaction import redact, redact_arguments, redact_messages, redact_text
from clew.redact.values import RedactedText, SecretFinding

__all__ = [
    "CATALOG",
    "RedactedText",
    "SecretFinding",
    "SecretKind",
    "redact",
    "redact_arguments",
    "redact_messages",
    "redact_text",
]
