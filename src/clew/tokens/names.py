"""The plain name of a model, whoever serves it and however they spell it.

Knows spellings only: provider prefixes, regions, dates, tags. What a name means is in the tables.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PROVIDER_DOTS = re.compile(
    r"^(?:(?:us|eu|apac|ap|jp|au|ca|sa|global|us-gov)\.)?"
    r"(?:anthropic|amazon|meta|mistral|cohere|deepseek|qwen|openai|moonshotai|moonshot|zai|minimax|nvidia|ai21|google)\."
)
_TAIL = re.compile(
    r"(?:"
    r"-v\d+:\d+(?::\d+k)?"  # Bedrock: -v1:0, -v1:0:200k; but deepseek-v3 is a name
    r"|[@-]20\d{6}"  # Anthropic and Vertex: -20250929, @20250929
    r"|-20\d{2}-\d{2}-\d{2}"  # OpenAI: -2024-08-06
    r"|@(?:latest|default|\d+)"
    r"|-latest"
    r"|:(?:free|thinking|beta|extended|nitro|floor|online|exacto|latest|cloud)"  # OpenRouter, Ollama
    r")$"
)


@lru_cache(maxsize=4_096)
def plain_name(model: str) -> str:
    """Lower case, without prefixes, dates and tags, and with hyphens for dots: `claude-opus-4-5`, `gpt-4-1-mini`."""
    name = model.strip().lower()
    name = name.rsplit("/", 1)[-1]
    name = name.removeprefix("ft:")
    name = _PROVIDER_DOTS.sub("", name)
    while (shorter := _TAIL.sub("", name)) != name and shorter:
        name = shorter
    return name.replace(".", "-").replace("_", "-").replace(" ", "-")


def starts_with_name(name: str, start: str) -> bool:
    """Whether a plain name is `start` or a variant of it: `gpt-4` starts `gpt-4-turbo`, but not `gpt-4o`."""
    return name.startswith(start) and not name[len(start) : len(start) + 1].isalnum()
