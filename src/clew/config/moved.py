"""Settings that have moved: the old place still works, and says where the new one is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moved:
    old: str
    new: str


MOVED = (
    Moved("compression.summary_model", "auxiliary.compression.model"),
    Moved("compression.summary_provider", "auxiliary.compression.provider"),
    Moved("compression.summary_base_url", "auxiliary.compression.base_url"),
    Moved("model.cache_ttl", "prompt_caching.cache_ttl"),
)

NEW_PLACES = {moved.old: moved.new for moved in MOVED}
