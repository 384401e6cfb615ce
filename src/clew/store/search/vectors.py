"""Likeness by meaning: vectors of passages, kept beside the index, and a page of two rankings in one. As steps.

Only where an embedding model is installed and the settings ask for it. Only questions are compared with turns of people
and models: a path or a quoted text is found by its words, and results of tools say little by their meaning.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from operator import mul
from typing import TypeAlias

from clew.store.database import Steps, execute_many, fetch_all, fetch_number
from clew.store.migrate import schema_version
from clew.store.search.base import SearchFilters
from clew.store.search.index import BY_NAME, filter_conditions
from clew.store.search.indexing import documents_where
from clew.store.search.query import Speaker

FIRST_WITH_VECTORS = 7
"""The schema that has the table. A database that cannot be written keeps an older one."""
PASSAGE_CHARS = 1_000
_MOST_PASSAGES = 3
"""So many from the start of a document have a vector: what a turn is about is said first."""
_COMPARED = 20_000
"""So many documents are compared with a question, the newest."""
NEAREST = 40
_RANK_OFFSET = 10
_WORDS_WEIGHT = 2.5
"""What the first ranks are worth more than later ones, and a rank by words more than one by meaning."""
_TOLD_BY_OTHERS = 0.7
"""What the likeness of a turn counts where a question says that another one told it."""
_ENDS = ("\n", ". ", "? ", "! ", "。", "？", "！")
_WAITS = (
    "d.kind = 'message' AND d.role IN ('user', 'assistant') AND d.conversation IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.doc = d.id AND v.model = ?)"
)

DocumentKey: TypeAlias = tuple[str, int]
"""The kind and the row of a document."""


class Embedder(ABC):
    """A model that makes vectors of texts: the nearer two of them, the more alike is what the texts mean."""

    name: str
    """Vectors of different models are never compared."""
    dimensions: int
    least: float = 1.0
    """The product of two vectors from which on their texts are alike at all."""

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A vector for each text: a byte for each dimension, a number from -127 to 127; all vectors of one length.

        Called in threads, also in several at the same time.
        """

    def nearest(self, question: bytes, documents: Sequence[bytes], limit: int) -> list[tuple[int, int, float]]:
        """The documents most like a question, the best first: index, index of the best passage, and how alike."""
        wanted, size = _numbers(question), self.dimensions
        likeness: list[tuple[int, int, int]] = []
        for document, vectors in enumerate(documents):
            for passage, start in enumerate(range(0, len(vectors), size)):
                numbers = _numbers(vectors[start : start + size])
                if (product := sum(map(mul, wanted, numbers))) >= self.least:
                    likeness.append((product, document, passage))
        best: dict[int, tuple[int, int, float]] = {}
        for product, document, passage in sorted(likeness, key=lambda it: (-it[0], it[1], it[2])):
            best.setdefault(document, (document, passage, product))
        return list(best.values())[:limit]


@dataclass(frozen=True, slots=True)
class AskedMeaning:
    """The vector of a question, and the model that made it."""

    embedder: Embedder
    vector: bytes


@dataclass(frozen=True, slots=True)
class NearDocument:
    """A document of a message that is like a question, and the number of the passage that is."""

    id: int
    ref: int
    passage: int

    @property
    def key(self) -> DocumentKey:
        return "message", self.ref


@dataclass(frozen=True, slots=True)
class WaitingDocument:
    """A document without vectors. The middle values say that it is still the same one when they are written."""

    id: int
    ref: int
    start: int
    at: int
    passages: tuple[str, ...]


def passages_of(text: str) -> list[tuple[int, int]]:
    """Where the first passages of a text begin and end: whole lines or sentences where possible."""
    passages: list[tuple[int, int]] = []
    start = 0
    while start < len(text) and len(passages) < _MOST_PASSAGES:
        stop = min(len(text), start + PASSAGE_CHARS)
        if stop < len(text):
            ends = (text.rfind(end, start + PASSAGE_CHARS // 2, stop) + len(end) for end in _ENDS)
            stop = max((end for end in ends if end > start + PASSAGE_CHARS // 2), default=stop)
        passages.append((start, stop))
        start = stop
    return passages


def waiting_documents(model: str, limit: int) -> Steps[list[WaitingDocument]]:
    """The newest documents that a model has made no vectors of."""
    rows = yield from fetch_all(
        f"SELECT d.id, d.ref, d.start, d.at FROM docs d WHERE {_WAITS} ORDER BY d.id DESC LIMIT ?",  # noqa: S608
        model,
        limit,
    )
    if not rows:
        return []
    refs = list(dict.fromkeys(int(row[1]) for row in rows))
    found = yield from documents_where("message", f"m.id IN ({', '.join('?' * len(refs))})", *refs)
    texts = {(doc.origin.ref, doc.start): doc.text for _, docs in found for doc in docs}
    waiting = []
    for id, ref, start, at in rows:
        text = texts.get((ref, start), "")
        passages = tuple(text[first:last] for first, last in passages_of(text))
        waiting.append(WaitingDocument(int(id), int(ref), int(start), int(at), passages))
    return waiting


def count_waiting(model: str) -> Steps[int]:
    """How many documents have no vectors of a model."""
    return (yield from fetch_number(f"SELECT count(*) FROM docs d WHERE {_WAITS}", model))  # noqa: S608


def keep_vectors(model: str, made: Iterable[tuple[WaitingDocument, bytes]]) -> Steps[None]:
    """Write the vectors of documents; of one that was deleted meanwhile none are written."""
    yield from execute_many(
        "INSERT INTO vectors (doc, conversation, model, body)"
        " SELECT id, conversation, CAST(? AS TEXT), ? FROM docs WHERE id = ? AND ref = ? AND start = ? AND at = ?"
        " ON CONFLICT (doc) DO UPDATE SET model = excluded.model, body = excluded.body",
        [(model, vectors, it.id, it.ref, it.start, it.at) for it, vectors in made],
    )


def nearest_documents(
    asked: AskedMeaning, filters: SearchFilters, told_by: Speaker | None
) -> Steps[list[NearDocument]]:
    """The documents that are most like a question, the best first; those of whoever told it count for more."""
    if (yield from schema_version()) < FIRST_WITH_VECTORS:
        return []
    conversations = [conversation for conversation, _ in filters.segments]
    of_documents = replace(filters, segments=())
    if conversations and all(stop is None for _, stop in filters.segments):
        # The conversations are the owner's, or the scope would not have been found.
        of_documents = replace(of_documents, owner=None)
    else:
        of_documents = replace(of_documents, segments=filters.segments)
    if "message" in filters.kinds:
        of_documents = replace(of_documents, kinds=())
    conditions, params = filter_conditions(of_documents, {name: f"d.{name}" for name in BY_NAME})
    # Without a condition on documents none is looked up: that takes as long as reading the vectors.
    joined = " JOIN docs d ON d.id = v.doc" if conditions else ""
    if conversations:
        conditions.append(f"v.conversation IN ({', '.join('?' * len(conversations))})")
    where = " AND ".join(["v.model = ?", *conditions])
    rows = yield from fetch_all(
        f"SELECT v.doc, v.body FROM vectors v{joined} WHERE {where} ORDER BY v.doc DESC LIMIT ?",  # noqa: S608
        asked.embedder.name,
        *params,
        *conversations,
        _COMPARED,
    )
    near = asked.embedder.nearest(asked.vector, [bytes(row[1]) for row in rows], 2 * NEAREST)
    found = {int(rows[index][0]): (passage, likeness) for index, passage, likeness in near}
    if not found:
        return []
    marks = ", ".join("?" * len(found))
    read = yield from fetch_all(f"SELECT id, ref, role FROM docs WHERE id IN ({marks})", *found)  # noqa: S608
    told_in = None if told_by is None else told_by.role
    documents: list[tuple[float, NearDocument]] = []
    for id, ref, role in read:
        passage, likeness = found[int(id)]
        weight = 1.0 if told_in in (None, role) else _TOLD_BY_OTHERS
        documents.append((likeness * weight, NearDocument(int(id), int(ref), passage)))
    documents.sort(key=lambda it: (-it[0], -it[1].id))
    return [document for _, document in documents[:NEAREST]]


def fused_ranks(
    by_words: Sequence[DocumentKey], by_meaning: Sequence[DocumentKey], limit: int
) -> dict[DocumentKey, float]:
    """The best of two rankings by their ranks in both, with what these are worth, the best first."""
    scores: dict[DocumentKey, float] = {}
    for ranking, weight in ((by_words, _WORDS_WEIGHT), (by_meaning, 1.0)):
        for rank, key in enumerate(dict.fromkeys(ranking), 1):
            scores[key] = scores.get(key, 0.0) + weight / (_RANK_OFFSET + rank)
    return {key: scores[key] for key in nlargest(limit, scores, key=lambda key: scores[key])}


def _numbers(vector: bytes) -> memoryview:
    return memoryview(vector).cast("b")
