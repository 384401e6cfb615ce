"""An embedder for tests: words of one group mean the same, and a text is the groups that it has words of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clew.store import Embedder


class GroupEmbedder(Embedder):
    """Texts are alike where they have words of the same groups. `embedded` has every text that it was given."""

    def __init__(self, *groups: str, name: str = "groups") -> None:
        self.name = name
        self.dimensions = len(groups)
        self.embedded: list[str] = []
        self._groups = [set(group.split()) for group in groups]

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.embedded += texts
        return [self._vector(set(re.findall(r"\w+", text.lower()))) for text in texts]

    def _vector(self, words: set[str]) -> bytes:
        return bytes(100 if words & group else 0 for group in self._groups)
