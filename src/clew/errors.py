"""Every exception that Clew raises on purpose.

    ClewError
    ├── InvalidArgument          an argument that is not allowed (also a ValueError)
    ├── InvalidMessage           a message that cannot be repaired; has its index
    ├── UnreadableTranscript     a file that holds no known conversation format
    ├── ConfigError              a setting that is unknown, of the wrong type or out of range
    │   └── InvalidConfig        all problems of a configuration at once
    ├── PluginError              a plugin that cannot be found or loaded
    ├── NoModel                  no model is configured
    ├── SummaryFailed            a summariser that gave no usable text
    ├── ConflictingCredentials   a request with two keys that differ
    ├── ProviderRefused          a model call that failed after all retries
    ├── FetchFailed              a model file that could not be downloaded or copied
    ├── ContextExhausted         a request that does not fit, after everything was tried
    ├── MemoryUnusable           a memory file that cannot be read or written
    ├── UnreadableCommand        a shell command line that cannot be parsed
    ├── SandboxUnavailable       a sandbox for commands that was chosen and cannot run here
    └── StoreError               a database that cannot do what was asked
        ├── UnknownSession       no session of that id
        ├── UnknownKey           no access key of that id
        ├── AmbiguousSession     a name that several sessions have
        ├── NoDatabase           there is no database yet
        ├── StaleView            a compaction of a view that has changed since
        ├── StaleHistory         messages to append behind a number that holds others
        ├── LeaseLost            a compaction whose lease ended before the commit
        ├── InUse                a conversation that branches refer to
        ├── SchemaTooNew         a database of a newer Clew
        ├── DatabaseBusy         a database that another process kept locked
        ├── DatabaseFull         no space left on the disk
        ├── ReadOnlyStore        a database that can be read and not written
        ├── DatabaseDamaged      a database file of which pages are damaged
        ├── IndexDamaged         a full-text index that has to be rebuilt
        └── DamagedRow           a row that cannot be read; has its session and number

A message names the thing, the value and the remedy. Expected outcomes are values, not exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.messages import Message
    from clew.providers import ErrorClass


class ClewError(Exception):
    """The base of all exceptions that Clew raises on purpose; its text is the problem, then the remedy."""

    def __init__(self, problem: str, *, remedy: str | None = None) -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.remedy: str | None = remedy
        """What to do about it; None where nothing is known."""


class InvalidArgument(ClewError, ValueError):  # noqa: N818 (here and below: the name says what is wrong)
    """An argument that is not allowed."""


class InvalidMessage(ClewError):  # noqa: N818
    """A message that cannot be used or repaired."""

    def __init__(self, index: int, problem: str, remedy: str) -> None:
        super().__init__(f"message {index}: {problem}. {remedy}")
        self.index = index
        self.problem = problem
        self.remedy = remedy


class UnreadableTranscript(ClewError):  # noqa: N818
    """A file that holds no conversation in a known format."""

    def __init__(self, source: str, problem: str, remedy: str) -> None:
        super().__init__(f"{source}: {problem}. {remedy}")
        self.source = source
        self.problem = problem
        self.remedy = remedy


class ConfigError(ClewError):
    """A setting that is unknown, of the wrong type or out of range."""

    def __init__(self, source: str, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{source}: {key} = {value!r} is not allowed", remedy=allowed)
        self.source = source
        self.key = key
        self.value = value
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong with a configuration: where, which key, which value, and what to do."""

    source: str
    """The file with its line, the environment, or the flag."""
    key: str
    """Empty where the file as a whole is the problem."""
    value: str
    """As shown: never a secret; empty where there is none to show."""
    remedy: str

    @property
    def text(self) -> str:
        if not self.key:
            return f"{self.source}: {self.value}; {self.remedy}"
        value = f" = {self.value}" if self.value else ""
        return f"{self.source}: {self.key}{value}: {self.remedy}"


class InvalidConfig(ConfigError):  # noqa: N818
    """A configuration with at least one problem; `problems` has all of them, in the order they were found."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.source, first.key, first.value, first.remedy)
        more = len(self.problems) - 1
        others = f" (and {more} more; `clew config check` lists them)" if more else ""
        self.args = (first.text + others,)


class PluginError(ClewError):
    """A plugin that cannot be found or loaded."""


class NoModel(ClewError):  # noqa: N818
    """The config names no model; `ways` are the ways to choose one."""

    def __init__(self, ways: str) -> None:
        super().__init__(f"no model is chosen. {ways}")
        self.remedy = ways


class SummaryFailed(ClewError):  # noqa: N818
    """A summariser that gave no usable text."""

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
        """The context window that the provider stated, if it did."""
        self.available_output = available_output
        self.partial = partial
        """The text that was written before the failure."""


class ConflictingCredentials(ClewError):  # noqa: N818
    """A request with different credentials in several places; `places` names them, without values."""

    def __init__(self, places: Iterable[str]) -> None:
        self.places = tuple(places)
        super().__init__(f"the keys in {' and '.join(self.places)} are not the same", remedy="send one of them")


@dataclass(frozen=True, slots=True)
class CalledEndpoint:
    """The address of a call, and the source of its key."""

    address: str
    """Without secrets."""
    key_source: str = ""
    """The variable or setting that holds the key, or should; empty if there is none."""
    has_key: bool = False


class ProviderRefused(ClewError):  # noqa: N818
    """A call that failed for good, after all retries; `fault` says what the error means."""

    def __init__(
        self,
        provider: str,
        fault: ErrorClass,
        body: str,
        partial: Message | None = None,
        endpoint: CalledEndpoint | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(f"{provider}: {fault.kind}: {body[:300]}")
        self.provider = provider
        self.fault = fault
        self.body = body
        self.partial = partial
        """The message so far, where the stream broke off."""
        self.endpoint = endpoint
        self.status = status
        """Of the HTTP response; None where there was none."""


class FetchFailed(ClewError):  # noqa: N818
    """A model file that could not be downloaded or copied, though the arguments were right."""


class ContextExhausted(ClewError):  # noqa: N818
    """A request that does not fit after all attempts. The conversation is unchanged."""

    def __init__(self, session: str, provider: str, tried: Sequence[str], large: Sequence[str]) -> None:
        remedy = "Begin a new conversation, use a model with a larger window, or make smaller what is large"
        super().__init__(
            f"session {session!r}: {provider} refused the request as too large. "
            f"Tried: {'; '.join(tried) or 'nothing, since nothing could be made smaller'}. "
            f"Large: {', '.join(large)}. {remedy}."
        )
        self.remedy = remedy
        self.session = session
        self.provider = provider
        self.tried = tuple(tried)
        self.large = tuple(large)


class MemoryUnusable(ClewError):  # noqa: N818
    """A memory file that cannot be read or written; nothing was changed."""


class UnreadableCommand(ClewError):  # noqa: N818
    """A shell command line that cannot be parsed."""


class SandboxUnavailable(ClewError):  # noqa: N818
    """A sandbox for commands that was chosen and cannot run here; no command runs without it."""


class StoreError(ClewError):
    """A database that cannot do what was asked."""


class UnknownSession(StoreError):  # noqa: N818
    """No session of that id, or none of that owner."""

    def __init__(self, session: str, near: str = "") -> None:
        remedy = f"near it: {near}" if near else "`clew sessions list` shows those there are"
        super().__init__(f"no session {session!r}{'' if near else ' in this store'}", remedy=remedy)
        self.session = session


class UnknownKey(StoreError):  # noqa: N818
    """No access key of that id, or none of that owner."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no key {key!r} in this store", remedy="`clew keys list` shows those there are")
        self.key = key


class AmbiguousSession(StoreError):  # noqa: N818
    """A name that several sessions have."""


class NoDatabase(StoreError):  # noqa: N818
    """A read from a database that does not exist yet."""


class StaleView(StoreError):  # noqa: N818
    """A compaction made from a view that is no longer in effect."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"session {session!r} was compacted or undone since its view was loaded",
            remedy="load it again and decide anew",
        )
        self.session = session


class StaleHistory(StoreError):  # noqa: N818
    """Messages to append after a number at which the history holds others."""

    def __init__(self, session: str, expected: int, found: int) -> None:
        super().__init__(
            f"session {session!r} has {found} messages, not {expected}, and the others differ",
            remedy="use sync() to add the difference or to branch",
        )
        self.session = session
        self.expected = expected
        self.found = found


class LeaseLost(StoreError):  # noqa: N818
    """A compaction whose lease ended, or was taken by another, before the commit."""


class InUse(StoreError):  # noqa: N818
    """A conversation that is not deleted because branches refer to it."""


class SchemaTooNew(StoreError):  # noqa: N818
    """A database with a schema of a newer Clew."""


class DatabaseBusy(StoreError):  # noqa: N818
    """Another process held the database for longer than `busy_seconds`."""


class DatabaseFull(StoreError):  # noqa: N818
    """No space is left on the disk; nothing was written."""


class ReadOnlyStore(StoreError):  # noqa: N818
    """A write to a database that can only be read."""


class DatabaseDamaged(StoreError):  # noqa: N818
    """A database file of which pages cannot be read, or do not fit together."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            f"{where}: the database is damaged ({problem})", remedy="`clew doctor` shows the extent and the remedy"
        )
        self.problem = problem
        """The message of the database."""


class IndexDamaged(StoreError):  # noqa: N818
    """A full-text index that cannot be read. It can be rebuilt from the rows."""


class DamagedRow(StoreError):  # noqa: N818
    """A row of the store that cannot be read, because its bytes or its JSON are damaged. The others can."""

    def __init__(self, what: str, problem: str, *, session: str | None = None, seq: int | None = None) -> None:
        super().__init__(
            f"{what} is damaged: {problem}",
            remedy="`clew doctor --repair` sets it aside, with a copy, and the rest goes on",
        )
        self.problem = problem
        self.session = session
        """The session that it belongs to, where it is known."""
        self.seq = seq
        """The number of the message, where it is one."""
