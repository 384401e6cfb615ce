"""The values of search: documents, index queries and filters; the scope of a search and its result."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

DocKind: TypeAlias = Literal["message", "summary", "output", "system"]
KINDS: tuple[DocKind, ...] = ("message", "summary", "output", "system")


@dataclass(frozen=True, slots=True)
class DocumentOrigin:
    """The row that a searchable text belongs to, and what it may be filtered by."""

    kind: DocKind
    ref: int
    owner: str
    conversation: int | None
    session: int | None
    seq: int | None
    role: str | None
    tool: str | None
    at: int


@dataclass(frozen=True, slots=True)
class SearchDocument:
    """A part of a text, of bounded length, as it is indexed. `id` is 0 until the index has given one."""

    origin: DocumentOrigin
    start: int
    stop: int
    text: str
    id: int = 0
    chars: int = 0
    """Of the whole text that it is a part of."""


# A tuple, because clauses of phrases are hashed all through a search.
class Phrase(NamedTuple):
    """Words one after the other; with `is_prefix` the last is the beginning of a word."""

    words: tuple[str, ...]
    is_prefix: bool = False


Clause: TypeAlias = tuple[Phrase, ...]
"""Any of these phrases."""


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """Which documents to search. An empty tuple, or None, does not filter."""

    owner: str | None = None
    segments: tuple[tuple[int, int | None], ...] = ()
    """Conversations, each up to a number: of its origin a branch has the messages before the fork."""
    sessions: tuple[int, ...] = ()
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    since: int | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """The newest `limit` documents that match all clauses."""

    clauses: tuple[Clause, ...]
    filters: SearchFilters
    limit: int
    ids: tuple[int, int] | None = None
    """Only documents with ids from the first to the last."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ids of documents that match, newest first, and about how many match in all."""

    docs: tuple[int, ...]
    estimate: int


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where to search; everywhere by default, but in system prompts."""

    session: str | None = None
    """Only in this session."""
    conversation_of: str | None = None
    """In the whole conversation of this session, with the messages that it shares as a branch."""
    owner: str | None = None
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[DocKind, ...] = ("message", "summary", "output")
    since: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class SnippetSizes:
    """About how many characters the hits of a page show."""

    best: int
    """Of the first few hits, in all of their excerpts."""
    later: int | None = None
    """Of the others, where not as many."""
    seen: Container[int] = ()
    """Numbers of messages that are in view: they are no first hits."""
    seen_in: int | None = None
    """The conversation of these messages."""
    whole: int = 0
    """A text of at most so many is shown whole."""
    excerpts: int = 1
    """At most so many of a longer text."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """The text around the best matches; `marks` are the ranges in it that matched."""

    text: str
    marks: tuple[tuple[int, int], ...]
    start: int
    """Where it begins in the whole text."""
    is_start: bool
    is_end: bool


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message, summary, output or system prompt that was found."""

    kind: DocKind
    score: float
    snippet: Snippet
    session: str | None
    conversation: int | None
    seq: int | None
    """The number of the message; for a summary or an output, how many messages preceded it."""
    role: str | None
    tool: str | None
    at: datetime
    ref: str
    """The id of an output; for other kinds an id inside this database."""
    title: str | None
    chars: int = 0
    """Of the whole text."""
    excerpts: tuple[Snippet, ...] = ()
    """The snippet and other parts with words of the query, in the order of the text."""
    copies: tuple[int, ...] = ()
    """The numbers of other messages of the conversation with nearly the same text around the words."""


@dataclass(frozen=True, slots=True)
class SearchHitGroup:
    """The hits of one conversation, the best first."""

    conversation: int | None
    title: str | None
    hits: tuple[SearchHit, ...]


@dataclass(frozen=True, slots=True)
class SearchCoverage:
    """How much was searched."""

    messages: int
    summaries: int
    outputs: int

    def __str__(self) -> str:
        return f"{self.messages:,} messages, {self.summaries:,} summaries, {self.outputs:,} outputs"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, the best first; `searched` only where there are none, since counting takes a while."""

    query: str
    hits: tuple[SearchHit, ...]
    searched: SearchCoverage | None
    problem: str | None = None
    """Why rows may be missing among the hits, and what to do: the index, or more of the database, is damaged."""

    @property
    def groups(self) -> tuple[SearchHitGroup, ...]:
        """The hits by conversation, in the order of each one's best hit."""
        by_conversation: dict[int | None, list[SearchHit]] = {}
        for hit in self.hits:
            by_conversation.setdefault(hit.conversation, []).append(hit)
        return tuple(SearchHitGroup(key, hits[0].title, tuple(hits)) for key, hits in by_conversation.items())

    def __str__(self) -> str:
        return f"{len(self.hits)} hits" if self.hits else f"searched {self.searched}: none"
