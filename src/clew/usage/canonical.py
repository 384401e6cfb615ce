"""One call's tokens, in the one shape that the rest of Clew reads.

Knows the five buckets and their sums. Does not know how any provider writes them: that is `normalize`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CanonicalUsage:
    """Tokens of one call, or of several added up. The three prompt buckets do not overlap."""

    input_tokens: int = 0
    """Prompt tokens that were neither read from a cache nor written to one."""
    output_tokens: int = 0
    """Everything the model wrote, its reasoning included."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    """The part of the output that was reasoning, as reported."""

    @property
    def prompt_tokens(self) -> int:
        """The whole prompt: what filled the window."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: CanonicalUsage) -> CanonicalUsage:
        if not isinstance(other, CanonicalUsage):
            return NotImplemented
        return CanonicalUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )
