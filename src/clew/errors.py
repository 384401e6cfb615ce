"""Every exception that Clew raises on purpose.

    ClewError
    ├── InvalidArgument        a call that cannot mean anything (also a ValueError)
    ├── InvalidMessage         a message that cannot be repaired; names its index
    ├── UnreadableTranscript   a file that is no conversation we know
    ├── ConfigError            a setting that is unknown, mistyped or out of range
    │   └── InvalidConfig      all that is wrong with a configuration at once (clew.config)
    ├── PluginError            a plugin that cannot be loaded
    ├── SummaryFailed          a summariser that gave nothing usable
    ├── ProviderRefused        a call that failed for good (clew.providers)
    ├── FetchFailed            a model file that could not be brought here (clew.providers)
    ├── ContextExhausted       a request that fits by no means (clew.turn)
    ├── MemoryUnusable         a memory file that cannot be read or written (clew.agent)
    └── StoreError             a database that cannot serve
        └── UnknownSession, StaleView, StaleHistory, LeaseLost, ...  (clew.store)

A message names the thing, the value and the remedy. Expected outcomes are values, not exceptions.
"""

from __future__ import annotations


class ClewError(Exception):
    """Anything Clew raises on purpose."""


class InvalidArgument(ClewError, ValueError):  # noqa: N818 (reads as what it says)
    """A call that cannot mean anything."""


class InvalidMessage(ClewError):  # noqa: N818
    """A message that cannot be used, and that no repair can save."""

    def __init__(self, index: int, problem: str, remedy: str) -> None:
        super().__init__(f"message {index}: {problem}. {remedy}")
        self.index = index
        self.problem = problem
        self.remedy = remedy


class UnreadableTranscript(ClewError):  # noqa: N818
    """A file that holds no conversation we can read."""

    def __init__(self, source: str, problem: str, remedy: str) -> None:
        super().__init__(f"{source}: {problem}. {remedy}")
        self.source = source
        self.problem = problem
        self.remedy = remedy


class ConfigError(ClewError):
    """A setting that is unknown, of the wrong type or out of range."""

    def __init__(self, source: str, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{source}: {key} = {value!r} is not allowed; {allowed}")
        self.source = source
        self.key = key
        self.value = value
        self.allowed = allowed


class PluginError(ClewError):
    """A plugin that cannot be found or loaded."""


class SummaryFailed(ClewError):  # noqa: N818
    """A summariser that gave nothing usable."""

    def __init__(
        self,
        problem: str,
        *,
        kind: str = "other",
        retry_after: float | None = None,
        limit: int | None = None,
        available_output: int | None = None,
        partial: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.kind = kind
        """One of the kinds of `classify_error`, or what was wrong with the text: empty, garbage, cut, ..."""
        self.retry_after = retry_after
        self.limit = limit
        """The context window that the provider stated."""
        self.available_output = available_output
        self.partial = partial
        """What was written before the writing stopped."""


class StoreError(ClewError):
    """A database that cannot serve."""
