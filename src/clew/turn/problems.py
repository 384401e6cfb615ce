"""What ends a turn without a reply although the provider was willing."""

from __future__ import annotations

from collections.abc import Sequence

from clew.errors import ClewError


class ContextExhausted(ClewError):  # noqa: N818 (reads as what it says)
    """A request that does not fit, whatever was tried. The conversation is as it was."""

    def __init__(self, session: str, provider: str, tried: Sequence[str], large: Sequence[str]) -> None:
        super().__init__(
            f"session {session!r}: the request does not fit, says {provider}. "
            f"Tried: {'; '.join(tried) or 'nothing, since nothing could be made smaller'}. "
            f"Large: {', '.join(large)}. "
            "Start afresh with /new, name what matters with /compress TOPIC, use a model with a larger window, "
            "or make smaller what is large."
        )
        self.session = session
        self.provider = provider
        self.tried = tuple(tried)
        self.large = tuple(large)
