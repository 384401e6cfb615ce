"""The store as it is searched: its index is kept up to date, and with an embedding model vectors beside it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from clew.errors import ClewError, DatabaseDamaged, DatabaseFull, IndexDamaged, ReadOnlyStore
from clew.store.database import Clock, Database, Steps, wall_clock
from clew.store.keys import KeyStore
from clew.store.search.base import KINDS, SearchResult, SearchScope, SnippetSizes
from clew.store.search.indexing import catch_up, index_where, is_behind
from clew.store.search.query import may_ask
from clew.store.search.ranking import SNIPPET_CHARS
from clew.store.search.search import (
    run_search,
    run_search_if_indexed,
    run_search_of_rare_word,
    run_search_unwritten,
    search_readable_rows,
)
from clew.store.search.vectors import (
    AskedMeaning,
    Embedder,
    WaitingDocument,
    count_waiting,
    keep_vectors,
    waiting_documents,
)

_EMBED_EVERY_ROWS = 16
"""After so many rows vectors are made of what waits for them, in the background."""
_EMBEDDED_AT_ONCE = 16
"""Of so many documents, and then they are kept: a process that ends leaves little to be made again."""
_EMBEDDED_BEFORE_SEARCH = 32
"""Of so many documents, the newest, vectors are made before a question is searched; of the others behind it."""


class SearchStore(KeyStore):
    """Search in a database. Without an embedding model no vectors are made or asked for."""

    def __init__(self, database: Database, clock: Clock = wall_clock, embedder: Embedder | None = None) -> None:
        super().__init__(database, clock)
        self._embedder = embedder if database.unwritable is None else None
        self._embedding: asyncio.Task[None] | None = None
        self._one_embeds = asyncio.Lock()
        self._waiting_rows = 0
        self._unembedded_rows = 0
        self._appended_rows = 0
        self._embedded_at: int | None = None
        """How many rows had been appended when last nothing waited for vectors."""

    async def search(
        self,
        query: str,
        scope: SearchScope | None = None,
        *,
        limit: int = 20,
        snippet_chars: int | SnippetSizes = SNIPPET_CHARS,
    ) -> SearchResult:
        """The best hits for any of the words of a query. Every text is a valid query."""
        sizes = SnippetSizes(snippet_chars) if isinstance(snippet_chars, int) else snippet_chars
        asked = (self._database.index, query, scope or SearchScope(), limit, sizes)
        try:
            if query.isalnum():  # one word, which may be rare
                found = await self._database.read_briefly(lambda: run_search_of_rare_word(*asked))
                if found is not None:
                    return found
            meaning = await self._meaning_of(query)
            if (found := await self._database.read(lambda: run_search_if_indexed(*asked, meaning))) is not None:
                return found
            await self.index_waiting()
            return await self._database.read(lambda: run_search(*asked, meaning))
        except (DatabaseFull, ReadOnlyStore):
            return await self._database.read(lambda: run_search_unwritten(*asked))
        except DatabaseDamaged:
            return await self._database.read_in_turns(search_readable_rows(*asked))
        except IndexDamaged:
            # Nothing is lost: the index is made from the rows.
            try:
                await self.rebuild_index()
                return await self._database.read(lambda: run_search(*asked))
            except (IndexDamaged, DatabaseDamaged, DatabaseFull, ReadOnlyStore):
                return await self._database.read_in_turns(search_readable_rows(*asked))

    async def index_waiting(self) -> None:
        """Index every row that waits for it."""
        if self._database.index.is_immediate:
            return
        if await self._database.read(is_behind):
            while await self._database.write(lambda: catch_up(self._database.index)):
                pass
        self._waiting_rows = 0

    async def rebuild_index(self) -> None:
        """Make the full-text index again from the rows. Vectors go with it, and are made again in their time."""
        index = self._database.index

        def operation() -> Steps[None]:
            yield from index.clear()
            if index.is_immediate:
                for kind in KINDS:
                    yield from index_where(index, kind, "1 = 1")

        try:
            await self._database.write(operation)
            await self.index_waiting()
        except (IndexDamaged, DatabaseDamaged):
            await self._database.recreate_index()
            await self._database.write(operation)
            await self.index_waiting()
        self._embedded_at = None

    # Vectors

    async def embed_waiting(self, most: int | None = None) -> int:
        """Make vectors of every document that waits for them, or of the newest; of how many they were made."""
        made = 0
        while self._embedder is not None and (most is None or made < most):
            async with self._one_embeds:
                appended = self._appended_rows
                if self._embedded_at == appended:
                    break
                await self.index_waiting()
                count = await self._embed_next(self._embedder)
                if not count:
                    self._embedded_at = appended
                made += count
        return made

    async def vectors_waiting(self) -> int | None:
        """How many documents have no vectors yet; None where no embedding model is in use."""
        embedder = self._embedder
        return None if embedder is None else await self._database.read(lambda: count_waiting(embedder.name))

    async def _embed_next(self, embedder: Embedder) -> int:
        waiting = await self._database.read(lambda: waiting_documents(embedder.name, _EMBEDDED_AT_ONCE))
        if waiting:
            passages = [passage for document in waiting for passage in document.passages]
            vectors = iter(await asyncio.to_thread(embedder.embed, passages) if passages else ())
            made: list[tuple[WaitingDocument, bytes]] = []
            for document in waiting:
                made.append((document, b"".join(next(vectors) for _ in document.passages)))
            await self._database.write(lambda: keep_vectors(embedder.name, made))
        return len(waiting)

    async def _meaning_of(self, query: str) -> AskedMeaning | None:
        """The vector of a question; None for other queries, and without a model."""
        embedder = self._embedder
        if embedder is None or not may_ask(query):
            return None
        if await self.embed_waiting(_EMBEDDED_BEFORE_SEARCH) >= _EMBEDDED_BEFORE_SEARCH:
            self._embed_soon()
        return AskedMeaning(embedder, (await asyncio.to_thread(embedder.embed, [query]))[0])

    def _count_unembedded(self, added: int) -> None:
        self._appended_rows += added
        self._unembedded_rows += added
        if self._unembedded_rows >= _EMBED_EVERY_ROWS:
            self._embed_soon()

    def _embed_soon(self) -> None:
        if self._embedding is None or self._embedding.done():
            self._unembedded_rows = 0
            self._embedding = asyncio.create_task(self._embed_behind())

    async def _embed_behind(self) -> None:
        # What could not be read or written now waits for the next time.
        with suppress(ClewError):
            await self.embed_waiting()

    async def _stop_embedding(self) -> None:
        if self._embedding is not None:
            self._embedding.cancel()
            with suppress(asyncio.CancelledError):
                await self._embedding
