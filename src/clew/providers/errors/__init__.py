"""What a provider's error means: `classify_error` turns a status and a body into an `ErrorClass`.

The sentences of providers are rows of a table (`table`), so that a new wording is a new row. What to do about an error
is decided in `clew.turn`; `explain_refusal` explains it to a person.
"""

from clew.providers.errors.classify import ErrorClass, classify_error
from clew.providers.errors.explain import RefusalText, error_message, explain_refusal
from clew.providers.errors.table import ErrorKind

__all__ = ["ErrorClass", "ErrorKind", "RefusalText", "classify_error", "error_message", "explain_refusal"]
