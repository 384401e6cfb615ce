"""The settings that engines take. A fold reads no other, so these load alone."""

from __future__ import annotations

from dataclasses import dataclass

from clew.config.declare import setting


@dataclass(frozen=True, slots=True)
class CompressionSettings:
    """When the compressor compacts, and what it leaves alone."""

    enabled: bool = setting(True, "Compact by itself when the threshold is reached")
    threshold: float = setting(0.50, "Compact when the prompt fills this share of the window", low=0.01, high=0.99)
    target_ratio: float = setting(0.20, "Share of the threshold kept word for word at the end", low=0.10, high=0.80)
    protect_last_n: int = setting(20, "Newest messages that stay word for word, as far as the budget allows", low=0)
    protect_first_n: int = setting(3, "First messages that stay word for word", low=0)


@dataclass(frozen=True, slots=True)
class LosslessSettings:
    """How the lossless engine (context.engine: lcm) folds. The threshold is that of compression; the tail has
    compression.target_ratio of what a fold leaves, and whatever the map has no use for."""

    fold_to: float = setting(0.50, "A fold brings the request down to this share of the threshold", low=0.10, high=0.90)
    map_ratio: float = setting(
        0.25, "Share of the threshold for the map; it takes more where the tail needs less", low=0.02, high=0.60
    )
    leaf_tokens: int = setting(20_000, "About so many tokens of messages become one leaf of the map", low=500)
    leaves_condensed: int = setting(8, "So many leaves in a row are condensed into one node", low=2, high=64)
    nodes_condensed: int = setting(4, "So many deeper nodes in a row are condensed into one", low=2, high=64)
    calls_per_hour: int = setting(
        120, "Summaries that a model may be asked for within an hour; then the built-in summariser writes", low=0
    )
    failures_before_rest: int = setting(3, "After so many failures in a row no model is asked for 10 minutes", low=1)
