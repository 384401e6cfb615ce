"""What the mock upstream refuses, in the words of each wire's provider.

A request over the window; calls without results and results without calls; too many cache markers or markers in a
wrong order; thinking that is bound to another conversation; signatures and encrypted content that the upstream did
not make.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from clew.testing.upstream_wires import CHAT, ENCRYPTED, GEMINI, MESSAGES, RESPONSES, SIGNATURE
from clew.usage import CanonicalUsage

_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_BOUND_ELSEWHERE = "Invalid `signature` in `thinking` block. The block is bound to a different conversation"
_MOST_MARKERS = 4


@dataclass(frozen=True, slots=True)
class UpstreamRules:
    """Which rules of the providers are kept. Without any, every request is answered."""

    window: int | None = None
    """Tokens; a longer prompt is refused, and the count is reported as usage."""
    counts_output: bool = False
    """The output that is asked for has to fit the window too, on chat completions and Anthropic's wire."""
    overflow_in_stream: bool = True
    """On Responses a stream is opened, and says that it failed; False: status 400."""
    pairs: bool = False
    """Every call has its result, every result its call; and at most four cache markers, the longer lived first."""
    binds_thinking: bool = False
    """Thinking and encrypted content are taken back only as they were given, Anthropic's only behind the same prefix;
    on Gemini's wire the calls of the current turn have their signatures."""


@dataclass(frozen=True, slots=True)
class ProviderRefusal:
    """A status and the body of an error."""

    status: int
    body: Mapping[str, Any]
    message: str
    code: str | None = None


def refusal(
    wire: str, message: str, *, status: int = 400, code: str | None = None, param: str | None = None
) -> ProviderRefusal:
    """An error in the shape of a wire."""
    body: dict[str, Any]
    if wire == MESSAGES:
        names = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error"}
        kind = names.get(status, "invalid_request_error" if status < 500 else "api_error")
        kind = "overloaded_error" if status == 529 else kind
        body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_mock"}
    elif wire == GEMINI:
        names = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
        names |= {500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
        body = {"error": {"code": status, "message": message, "status": names.get(status, "INVALID_ARGUMENT")}}
    else:
        kind = {401: "invalid_request_error", 429: "tokens"}.get(
            status, "invalid_request_error" if status < 500 else "server_error"
        )
        body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return ProviderRefusal(status, body, message, code)


_WORDS = {
    CHAT: {
        401: "Incorrect API key provided: sk-fake. You can find your API key at https://platform.openai.com/account/api-keys.",
        429: "Rate limit reached for mock-model in organization org-mock on tokens per min (TPM): Limit 30000, Used "
        "29000, Requested 2000. Please try again in 2s.",
        500: "The server had an error while processing your request. Sorry about that!",
        503: "That model is currently overloaded with other requests. You can retry your request.",
    },
    MESSAGES: {
        401: "invalid x-api-key",
        429: "This request would exceed your organization's rate limit of 30,000 input tokens per minute.",
        500: "Internal server error",
        529: "Overloaded",
    },
    GEMINI: {
        401: "Request had invalid authentication credentials.",
        429: "You exceeded your current quota, please check your plan and billing details. Please retry in 2s.",
        500: "An internal error has occurred. Please retry.",
        503: "The model is overloaded. Please try again later.",
    },
}


def words_for(wire: str, status: int) -> ProviderRefusal:
    """The error of a wire's provider for a status."""
    words = _WORDS.get(wire, _WORDS[CHAT])
    code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
    return refusal(wire, words.get(status, f"The mock upstream is set to answer {status}."), status=status, code=code)


def first_refusal(
    rules: UpstreamRules, wire: str, body: Mapping[str, Any], headers: Mapping[str, str], tokens: int
) -> ProviderRefusal | None:
    """Why a request of so many tokens is not answered; None where nothing is wrong with it."""
    if rules.pairs:
        for checked in _PAIRS[wire], _markers if wire == MESSAGES else None:
            found = checked(body) if checked is not None else None
            if found is not None:
                return refusal(wire, found, param="input" if wire == RESPONSES else "messages")
    if rules.binds_thinking:
        found = unbound_thinking(wire, body, headers)
        if found is not None:
            code = "invalid_encrypted_content" if wire == RESPONSES else None
            return refusal(wire, found, code=code)
    return _overflow(rules, wire, body, tokens) if rules.window is not None else None


def _overflow(rules: UpstreamRules, wire: str, body: Mapping[str, Any], tokens: int) -> ProviderRefusal | None:
    window = rules.window or 0
    asked = body.get("max_tokens") or body.get("max_completion_tokens") or 0
    output = asked if rules.counts_output and isinstance(asked, int) and wire in (CHAT, MESSAGES) else 0
    if tokens + output <= window:
        return None
    too_long = "context_length_exceeded"
    match wire:
        case "messages" if tokens > window:
            return refusal(wire, f"prompt is too long: {tokens} tokens > {window} maximum")
        case "messages":
            over = f"input length and `max_tokens` exceed context limit: {tokens} + {output} > {window}"
            return refusal(wire, f"{over}, decrease input length or `max_tokens` and try again")
        case "responses":
            message = "Your input exceeds the context window of this model. Please adjust your input and try again."
            return refusal(wire, message, code=too_long, param="input")
        case "gemini":
            limits = f"({tokens}) exceeds the maximum number of tokens allowed ({window})"
            return refusal(wire, f"The input token count {limits}.")
    limit = f"This model's maximum context length is {window} tokens. However,"
    if tokens > window:
        message = f"{limit} your messages resulted in {tokens} tokens. Please reduce the length of the messages."
    else:
        message = (
            f"{limit} you requested {tokens + output} tokens ({tokens} in the messages, {output} in the completion). "
            "Please reduce the length of the messages or completion."
        )
    return refusal(wire, message, code=too_long, param="messages")


def _chat_pairs(body: Mapping[str, Any]) -> str | None:
    waiting: list[str] = []
    called = False
    for message in [*listed_messages(body), {"role": "end"}]:
        if message.get("role") == "tool":
            if not called or message.get("tool_call_id") not in waiting:
                return (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'."
                )
            waiting.remove(str(message["tool_call_id"]))
            continue
        if waiting:
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                "'tool_call_id'. The following tool_call_ids did not have response messages: " + ", ".join(waiting)
            )
        waiting = [str(call.get("id")) for call in message.get("tool_calls") or ()]
        called = bool(waiting)
    return None


def _responses_pairs(body: Mapping[str, Any]) -> str | None:
    items = listed_messages(body)
    called: dict[str, bool] = {}
    for at, item in enumerate(items):
        kind, call_id = str(item.get("type", "")), str(item.get("call_id", ""))
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
            called[call_id] = False
        elif kind.endswith("_call_output"):
            if call_id not in called:
                return f"No tool call found for function call output with call_id {call_id}."
            called[call_id] = True
        elif kind == "reasoning" and (at + 1 == len(items) or items[at + 1].get("role") in ("user", "developer")):
            name = f"Item '{item.get('id', '')}' of type 'reasoning'"
            return f"{name} was provided without its required following item."
    return next(
        (f"No tool output found for function call {call_id}." for call_id in called if not called[call_id]), None
    )


def _anthropic_pairs(body: Mapping[str, Any]) -> str | None:
    messages = _merged([message for message in listed_messages(body) if message.get("role") != "system"])
    if messages and messages[0].get("role") != "user" and not _blocks(messages[0], "compaction"):
        return 'messages: first message must use the "user" role'
    waiting: list[str] = []
    for at, message in enumerate([*messages, {"role": "end"}]):
        results = [str(block.get("tool_use_id")) for block in _blocks(message, "tool_result")]
        missing = [call_id for call_id in waiting if call_id not in results]
        if missing:
            return (
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        for call_id in results:
            if call_id not in waiting:
                return (
                    f"messages.{at}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        if any(not str(block.get("text") or "").strip() for block in _blocks(message, "text")):
            return "messages: text content blocks must contain non-whitespace text"
        waiting = [str(block.get("id")) for block in _blocks(message, "tool_use")]
    return None


def _merged(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Messages of one role in a row as one, as that provider reads them."""
    merged: list[Mapping[str, Any]] = []
    for message in messages:
        if merged and merged[-1].get("role") == message.get("role"):
            contents = [_as_blocks(each.get("content")) or [] for each in (merged[-1], message)]
            merged[-1] = {"role": message.get("role"), "content": [*contents[0], *contents[1]]}
        else:
            merged.append(message)
    return merged


def _gemini_pairs(body: Mapping[str, Any]) -> str | None:
    before: Mapping[str, Any] = {}
    for content in [*listed_messages(body), {"role": "user", "parts": [{"text": "end"}]}]:
        calls, answers = _functions(before, "Call"), _functions(content, "Response")
        if answers and not calls:
            return "Please ensure that function response turn comes immediately after a function call turn."
        if len(calls) != len(answers):
            return (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        if _functions(content, "Call") and before.get("role", "model") == "model":
            return (
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
        before = content
    return None


_PAIRS = {CHAT: _chat_pairs, RESPONSES: _responses_pairs, MESSAGES: _anthropic_pairs, GEMINI: _gemini_pairs}


def _blocks(message: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    content = message.get("content")
    listed = content if isinstance(content, list) else []
    return [block for block in listed if isinstance(block, dict) and block.get("type") == kind]


def _functions(content: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """The parts of a content of Gemini's wire that call, or that respond."""
    names = (f"function{kind}", f"function_{kind.lower()}")
    parts = content.get("parts")
    listed = parts if isinstance(parts, list) else []
    return [part for part in listed if isinstance(part, dict) and any(name in part for name in names)]


def _markers(body: Mapping[str, Any]) -> str | None:
    lives = [marker.get("ttl", "5m") for marker in _cache_markers(body)]
    if len(lives) > _MOST_MARKERS:
        return f"A maximum of {_MOST_MARKERS} blocks with cache_control may be provided. Found {len(lives)}."
    if "5m" in lives and "1h" in lives[lives.index("5m") :]:
        return (
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are "
            "processed in the following order: tools, system, messages."
        )
    return None


def _cache_markers(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    pending: list[Any] = [body.get("messages"), body.get("system"), body.get("tools")]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if isinstance(value.get("cache_control"), dict):
                yield value["cache_control"]
            inner = value.get("content")
            pending += [inner] if isinstance(inner, list) else []
        elif isinstance(value, list):
            pending.extend(reversed(value))


def bound_signature(body: Mapping[str, Any]) -> str:
    """The signature of thinking that follows all the messages of a request."""
    return f"{SIGNATURE}:{list(_prefixes(body))[-1]}"


def unbound_thinking(wire: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> str | None:
    """Why thinking or encrypted content is not taken; None where it is, or where it is left out as was asked."""
    if wire == RESPONSES:
        return _foreign_content(body)
    if wire == GEMINI:
        return _missing_signature(body)
    if wire != MESSAGES or _drops_blocks(body, headers):
        return None
    found = next(iter(mismatched_thinking(body)), None)
    if found is None:
        return None
    place, is_ours = found
    return f"{place}: {_BOUND_ELSEWHERE if is_ours else 'Invalid `signature` in `thinking` block'}"


def mismatched_thinking(body: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """The places of thinking behind another prefix than its own, and whether the mock upstream made it."""
    for at, (message, prefix) in enumerate(zip(listed_messages(body), _prefixes(body), strict=False)):
        content = message.get("content")
        for place, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict) and block.get("type") == "thinking":
                signature = str(block.get("signature"))
                if signature != f"{SIGNATURE}:{prefix}":
                    yield f"messages.{at}.content.{place}", signature.startswith(f"{SIGNATURE}:")


def dropped_thinking(body: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """The dropped blocks of a request that allows it, as reported in the answer."""
    if not _drops_blocks(body, headers):
        return ()
    reason = "prefix_binding_mismatch"
    return tuple(
        {"type": "thinking_dropped", "path": place, "reason": reason} for place, _ in mismatched_thinking(body)
    )


def _drops_blocks(body: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    thinking = body.get("thinking")
    binding = thinking.get("block_binding") if isinstance(thinking, dict) else None
    wanted = isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"
    return wanted and _BINDING_BETA in headers.get("anthropic-beta", "")


def _prefixes(body: Mapping[str, Any]) -> Iterator[str]:
    """A hash of tools and system prompt, and one more behind each message; cache markers make no difference."""
    digest = _digest(b"", [body.get("tools"), body.get("system")])
    yield digest.hex()
    for message in listed_messages(body):
        digest = _digest(digest, {**message, "content": _as_blocks(message.get("content"))})
        yield digest.hex()


def _digest(before: bytes, value: Any) -> bytes:
    written = json.dumps(_without_markers(value), sort_keys=True).encode()
    return blake2b(before + written, digest_size=16).digest()


def _as_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _without_markers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_markers(inner) for name, inner in value.items() if name != "cache_control"}
    return [_without_markers(inner) for inner in value] if isinstance(value, list) else value


def _foreign_content(body: Mapping[str, Any]) -> str | None:
    for item in listed_messages(body):
        content = item.get("encrypted_content")
        if item.get("type") in ("reasoning", "compaction") and content and not str(content).startswith(ENCRYPTED):
            name = str(item.get("id") or item["type"])
            why = "Encrypted content could not be decrypted or parsed."
            return f"The encrypted content for item {name} could not be verified. Reason: {why}"
    return None


def _missing_signature(body: Mapping[str, Any]) -> str | None:
    contents = listed_messages(body)
    asked = [at for at, content in enumerate(contents) if content.get("role") != "model" and _has_text(content)]
    current: Sequence[Mapping[str, Any]] = contents[asked[-1] + 1 :] if asked else contents
    for content in current:
        calls = _functions(content, "Call")
        if calls and not (calls[0].get("thoughtSignature") or calls[0].get("thought_signature")):
            called = calls[0].get("functionCall") or calls[0].get("function_call") or {}
            return (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{called.get('name')}`, position {contents.index(content) + 1}."
            )
    return None


def _has_text(content: Mapping[str, Any]) -> bool:
    parts = content.get("parts")
    return isinstance(parts, list) and any(isinstance(part, dict) and "text" in part for part in parts)


def cloud_refusal(path: str, query: Mapping[str, str], body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """The error of a cloud for a request that its paths refuse; empty for a valid one."""
    if path.startswith("/openai/") and not path.startswith("/openai/v1/") and not query.get("api-version"):
        return "Missing required query parameter: api-version"
    if path.startswith("/model/"):
        if not isinstance(body.get("anthropic_version"), str):
            return "anthropic_version: Field required"
        if extra := sorted({"model", "stream"} & body.keys()):
            return f"{extra[0]}: Extra inputs are not permitted"
        signed = headers.get("authorization", "")
        return "" if signed.startswith(("Bearer ", "AWS4-HMAC-SHA256 ")) else "Missing Authentication Token"
    if path.lower().endswith("rawpredict"):
        is_count = path.endswith("count-tokens:rawPredict")
        if not isinstance(body.get("anthropic_version"), str) and not is_count:
            return "anthropic_version: Field required"
        return "model: Extra inputs are not permitted" if "model" in body and not is_count else ""
    return ""


LEAST_TOKENS = 1_024
_LOOK_BACK_BLOCKS = 20
_CHARS_PER_TOKEN = 4
_MARKER = "cache_control"
_SYSTEM_FIELDS = ("system", "instructions", "systemInstruction", "system_instruction")
_BEFORE_MESSAGES = (
    "tool_choice",
    "thinking",
    "reasoning",
    "reasoning_effort",
    "parallel_tool_calls",
    "toolConfig",
    "tool_config",
)


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """A part of a prompt that is cached as a whole, without its marker."""

    text: str
    is_marked: bool


class UpstreamCache:
    """The prefixes that the upstream has read, over all requests. A token is four chars."""

    def __init__(self, least_tokens: int = LEAST_TOKENS) -> None:
        self._least = least_tokens
        self._known: set[bytes] = set()
        """A hash for each prefix of blocks."""

    def usage_of(self, wire: str, body: Mapping[str, Any], output_tokens: int) -> CanonicalUsage:
        """The usage of a request, which is remembered."""
        blocks = list(prompt_blocks(body))
        sizes = [0, *accumulate(len(block.text) for block in blocks)]
        tokens = [size // _CHARS_PER_TOKEN for size in sizes]
        chain = list(accumulate((block.text.encode(errors="replace") for block in blocks), _chained, initial=b""))
        ends = [end for end in range(1, len(blocks) + 1) if tokens[end] >= self._least]
        is_anthropic = wire == "messages"
        marked = [end for end in ends if blocks[end - 1].is_marked or not is_anthropic]
        looked_at = (end for last in reversed(marked) for end in range(last, max(0, last - _LOOK_BACK_BLOCKS), -1))
        read = next((end for end in looked_at if chain[end] in self._known), 0)
        self._known.update(chain[end] for end in marked)
        # OpenAI and Google report no cache writes.
        written = max(0, tokens[max(marked, default=0)] - tokens[read]) if is_anthropic else 0
        return CanonicalUsage(
            input_tokens=tokens[-1] - tokens[read] - written,
            output_tokens=output_tokens,
            cache_read_tokens=tokens[read],
            cache_write_tokens=written,
        )


def _chained(before: bytes, text: bytes) -> bytes:
    return blake2b(before + text, digest_size=16).digest()


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """The size of a request, by the same count."""
    return sum(len(block.text) for block in prompt_blocks(body)) // _CHARS_PER_TOKEN


def prompt_blocks(body: Mapping[str, Any]) -> Iterator[PromptBlock]:
    """The blocks of a request of any of the four wires, in the order in which they are read."""
    yield from (_block("tool", tool) for tool in body.get("tools") or ())
    system = next((body[name] for name in _SYSTEM_FIELDS if body.get(name)), None)
    yield from (_block("system", part) for part in _parts(system))
    settings = {name: body[name] for name in _BEFORE_MESSAGES if name in body}
    if settings:
        yield _block("settings", settings)
    for message in listed_messages(body):
        content = message.get("content", message.get("parts"))
        around = {name: value for name, value in message.items() if name not in ("content", "parts", _MARKER)}
        yield from (_block(around, part) for part in _parts(content))
        if not content:
            yield _block(around, "")


def listed_messages(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The messages of a request of any of the four wires; a text alone is one of the user."""
    given = body.get("messages") or body.get("input") or body.get("contents") or ()
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [given] if isinstance(given, dict) else [item for item in given if isinstance(item, dict)]


def _parts(content: Any) -> Sequence[Any]:
    if isinstance(content, str):
        # The same as one part with this text, which is how a text is marked.
        return [{"type": "text", "text": content}]
    if isinstance(content, dict):
        return content.get("parts") or [content]
    return content or []


def _block(around: Any, part: Any) -> PromptBlock:
    is_marked = isinstance(part, dict) and _MARKER in part
    bare = {name: value for name, value in part.items() if name != _MARKER} if is_marked else part
    return PromptBlock(json.dumps([around, bare], ensure_ascii=False), is_marked)
