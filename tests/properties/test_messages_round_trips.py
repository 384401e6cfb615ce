"""Whatever a wire says, it says the same after it was read and written."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.messages import Item, Message, calls_of, convert, name_of_call, read_conversation, repair, text_of

# Other work on the machine is no failure.
unhurried = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

words = st.text(max_size=12) | st.sampled_from(["", " ", "\r", "\n\n"])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
)
odd_fields = st.dictionaries(
    st.sampled_from(["odd", "id", "cache_control", "status", "phase"]), json_values, max_size=2
)
ids = st.sampled_from(["a", "b", "c", "call_9"])


def shaped(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """An object with these fields in some order, and some that nobody expects."""
    known = st.fixed_dictionaries(fields)
    both = st.tuples(known, odd_fields).map(lambda pair: {**pair[1], **pair[0]})
    return both.flatmap(lambda made: st.permutations(list(made.items())).map(dict))


text_blocks = shaped(type=st.just("text"), text=words)
odd_blocks = shaped(type=st.sampled_from(["hologram", "server_tool_use", "document", "input_text"]), body=json_values)
images = st.sampled_from(
    [
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]
)
contents = words | st.none() | st.lists(text_blocks | odd_blocks | images, max_size=3)

thinking = shaped(type=st.just("thinking"), thinking=words, signature=words) | shaped(
    type=st.just("redacted_thinking"), data=words
)
tool_uses = shaped(
    type=st.just("tool_use"), id=ids, name=words, input=st.dictionaries(words, json_values, max_size=2) | json_values
)
tool_results = shaped(type=st.just("tool_result"), tool_use_id=ids, content=contents) | shaped(
    type=st.just("tool_result"), tool_use_id=ids, is_error=st.booleans()
)
anthropic_messages = (
    shaped(role=st.sampled_from(["user", "assistant", "system"]), content=contents)
    | shaped(role=st.just("assistant"), content=st.lists(thinking | text_blocks | tool_uses | odd_blocks, max_size=5))
    | shaped(role=st.just("user"), content=st.lists(tool_results | text_blocks | images | odd_blocks, max_size=5))
)

calls = shaped(id=ids, type=st.just("function"), function=shaped(name=words, arguments=words))
chat_messages = (
    shaped(role=st.sampled_from(["system", "developer", "user", "assistant"]), content=contents)
    | shaped(role=st.just("assistant"), content=contents, tool_calls=st.lists(calls, max_size=3))
    | shaped(role=st.just("tool"), tool_call_id=ids, content=contents)
)

items = (
    shaped(type=st.just("message"), role=st.sampled_from(["user", "assistant", "developer"]), content=contents)
    | shaped(role=st.sampled_from(["user", "assistant", "system"]), content=contents)
    | shaped(type=st.just("reasoning"), summary=st.lists(text_blocks, max_size=2), encrypted_content=words)
    | shaped(type=st.just("function_call"), call_id=ids, name=words, arguments=words)
    | shaped(type=st.sampled_from(["custom_tool_call", "computer_call"]), call_id=ids, input=json_values)
    | shaped(type=st.sampled_from(["function_call_output", "computer_call_output"]), call_id=ids, output=contents)
    | shaped(type=st.sampled_from(["web_search_call", "item_reference", "compaction"]), body=json_values)
)
signatures = st.dictionaries(st.sampled_from(["thoughtSignature", "thought_signature", "odd"]), words, max_size=1)


def part(kind: str, /, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A part of the Gemini wire, with some of its fields, perhaps under its other name and with a signature."""
    snake = "".join(f"_{char.lower()}" if char.isupper() else char for char in kind)
    inner = st.fixed_dictionaries({}, optional=fields) | shaped(**fields)
    return st.tuples(st.sampled_from([kind, snake]), inner, signatures).map(lambda it: {it[0]: it[1], **it[2]})


text_parts = st.fixed_dictionaries({"text": words}, optional={"thoughtSignature": words, "odd": json_values})
thoughts = st.fixed_dictionaries({"thought": st.just(True), "text": words}, optional={"thoughtSignature": words})
media_parts = part("inlineData", mimeType=st.sampled_from(["image/png", "audio/wav", "text/csv"]), data=words) | part(
    "fileData", fileUri=st.sampled_from(["gs://a/b.pdf", "https://example.org/a.png"])
)
code_parts = part("executableCode", code=words) | part("codeExecutionResult", output=words)
function_calls = part("functionCall", name=words, id=ids, args=st.dictionaries(words, json_values, max_size=2))
function_responses = part(
    "functionResponse", name=words, id=ids, response=st.dictionaries(words, json_values, max_size=2) | json_values
)
odd_parts = st.dictionaries(words, json_values, max_size=2) | st.none() | words
said = text_parts | media_parts | code_parts | odd_parts
gemini_contents = (
    shaped(role=st.sampled_from(["user", "model"]), parts=st.lists(said, max_size=3))
    | shaped(role=st.just("model"), parts=st.lists(thoughts | said | function_calls, max_size=5))
    | shaped(role=st.sampled_from(["user", "function"]), parts=st.lists(function_responses | said, max_size=5))
    | shaped(parts=json_values)
)
lists = {
    "gemini": st.lists(gemini_contents, max_size=6),
    "anthropic": st.lists(anthropic_messages, max_size=6),
    "openai_chat": st.lists(chat_messages, max_size=6),
    "responses": st.lists(items, max_size=8),
}
systems = words | st.lists(text_blocks, max_size=2) | st.none()
instructions = words | shaped(parts=st.lists(text_parts, max_size=2)) | st.none()
LIST_FIELDS = {"responses": "input", "gemini": "contents"}
SYSTEM_FIELDS = {"responses": ["instructions"], "gemini": ["systemInstruction", "system_instruction"]}
SYSTEMS = {"responses": words | st.none(), "gemini": instructions}


@st.composite
def wires(draw: st.DrawFn) -> tuple[Any, Any]:
    """A dialect, and a bare list or a request in it."""
    dialect = draw(st.sampled_from(sorted(lists)))
    listed = draw(lists[dialect])
    if draw(st.booleans()):
        return dialect, listed
    fields = {LIST_FIELDS.get(dialect, "messages"): listed, **draw(odd_fields)}
    if draw(st.booleans()):
        system_field = draw(st.sampled_from(SYSTEM_FIELDS.get(dialect, ["system"])))
        fields[system_field] = draw(SYSTEMS.get(dialect, systems))
    if draw(st.booleans()):
        fields["tools"] = draw(st.lists(shaped(name=words), max_size=2))
    return dialect, dict(draw(st.permutations(list(fields.items()))))


def as_bytes(value: Any) -> str:
    return json.dumps(value)


@unhurried
@given(wires())
def test_a_wire_leaves_exactly_as_it_came(wire: tuple[Any, Any]) -> None:
    dialect, came = wire
    before = as_bytes(came)
    written = read_conversation(came, dialect=dialect).write()
    assert as_bytes(written) == before
    assert as_bytes(came) == before


@unhurried
@given(wires(), st.sampled_from(sorted(lists)))
def test_whatever_a_wire_says_can_be_said_in_every_dialect(wire: tuple[Any, Any], to: Any) -> None:
    dialect, came = wire
    before = as_bytes(came)
    converted = convert(came, to, dialect=dialect)
    assert as_bytes(came) == before
    written = read_conversation(converted, dialect=to).write()
    assert as_bytes(written) == as_bytes(converted)


@unhurried
@given(wires())
def test_a_repaired_conversation_is_written_in_its_own_dialect_and_reads_the_same_again(wire: tuple[Any, Any]) -> None:
    dialect, came = wire
    conversation = read_conversation(came, dialect=dialect)
    valid = repair(conversation.messages).messages
    written = conversation.write(valid)
    again = read_conversation(json.loads(as_bytes(written)), dialect=dialect)
    assert wanted(again.messages) == wanted(valid)
    assert not [it for it in repair(again.messages).repairs if "result" in it.problem]


def wanted(messages: Any) -> list[tuple[str, str]]:
    """The calls of a history; an id that was made for a call without one depends on its place."""
    named = [(call["id"], name_of_call(call)) for message in messages for call in calls_of(message)]
    return [("" if made.startswith("call_without_id") else made, name) for made, name in named]


def objects_in(value: Any) -> set[int]:
    """The identity of every object and every text anywhere in a wire."""
    found: set[int] = set()
    pending = [value]
    while pending:
        value = pending.pop()
        found.add(id(value))
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return found


def is_blank(block: Any) -> bool:
    return not block or (isinstance(block, dict) and block.get("type") == "text" and not block["text"].strip())


def pieces_of(origin: Item, item: Any) -> list[Any]:
    """What of a wire item a message was made of, as far as it says anything."""
    content = item.get("content") if origin.blocks is None else origin.blocks
    if "parts" in item and origin.blocks is None:
        content = item["parts"]
    if "parts" in item and isinstance(content, list):  # a text alone is a text in our form
        content = [it["text"] if isinstance(it, dict) and it.keys() == {"text"} else it for it in content]
    return [piece for piece in (content if isinstance(content, list) else [content]) if not is_blank(piece)]


@unhurried
@given(wires(), st.data())
def test_one_changed_message_leaves_what_the_others_came_from_as_it_was(
    wire: tuple[Any, Any], data: st.DataObject
) -> None:
    dialect, came = wire
    conversation = read_conversation(came, dialect=dialect)
    if not conversation.messages:
        return
    place = data.draw(st.integers(0, len(conversation.messages) - 1))
    before, after = conversation.messages[:place], conversation.messages[place + 1 :]
    changed: Any = {**conversation.messages[place], "content": "changed"}
    new: Any = {"role": data.draw(st.sampled_from(["user", "assistant", "system"])), "content": "new"}
    instead = data.draw(st.sampled_from([(changed,), (), (new, conversation.messages[place]), (changed, new)]))
    left = objects_in(conversation.write([*before, *instead, *after]))
    for origin in conversation.items:
        if any(origin.message is message for message in (*before, *after)):
            for item in origin.raw:
                assert id(item) in left or all(id(piece) in left for piece in pieces_of(origin, item))


plain = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=8)


@st.composite
def valid_histories(draw: st.DrawFn) -> list[Message]:
    """Histories that every dialect can carry: text, pictures, parallel calls, results."""
    history: list[Any] = [{"role": "user", "content": draw(plain)}]
    for turn in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            url = draw(st.sampled_from(["https://example.org/a.png", "data:image/png;base64,AAAA"]))
            parts = [{"type": "text", "text": draw(plain)}, {"type": "image_url", "image_url": {"url": url}}]
            history.append({"role": "assistant", "content": draw(plain)})
            history.append({"role": "user", "content": parts})
        count = draw(st.integers(1, 3))
        made = [
            {
                "id": f"call_{turn}_{place}",
                "type": "function",
                "function": {"name": "f", "arguments": as_bytes(draw(st.dictionaries(plain, json_values, max_size=2)))},
            }
            for place in range(count)
        ]
        history.append({"role": "assistant", "content": draw(st.none() | plain), "tool_calls": made})
        history += [{"role": "tool", "tool_call_id": call["id"], "content": draw(plain)} for call in made]
    return [*history, {"role": "assistant", "content": draw(plain)}]


def essence(messages: Any) -> list[Any]:
    """What every dialect must keep of a history, in order."""
    kept: list[Any] = []
    for message in messages:
        kept.append((message["role"], text_of(message), message.get("tool_call_id")))
        for call in message.get("tool_calls") or ():
            kept.append((call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])))
        content = message.get("content")
        if isinstance(content, list):
            kept += [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    return kept


@unhurried
@given(valid_histories(), st.permutations(["anthropic", "responses", "gemini"]))
def test_there_and_back_through_other_dialects_keeps_texts_calls_ids_and_pictures(
    history: list[Message], way: list[Any]
) -> None:
    wire: Any = history
    for dialect in [*way, "openai_chat"]:
        wire = convert(wire, dialect)
    assert essence(wire["messages"]) == essence(history)


@unhurried
@given(valid_histories())
def test_what_is_written_for_anthropic_keeps_the_rules_of_that_wire(history: list[Message]) -> None:
    messages = convert(history, "anthropic")["messages"]
    roles = [message["role"] for message in messages]
    assert all(role != after for role, after in pairwise(roles))
    for before, message in pairwise(messages):
        asked = [b["id"] for b in before["content"] if isinstance(b, dict) and b["type"] == "tool_use"]
        answered = [b["tool_use_id"] for b in message["content"] if isinstance(b, dict) and b["type"] == "tool_result"]
        assert asked == answered
        assert [b["type"] for b in message["content"][: len(answered)] if asked] == ["tool_result"] * len(asked)


@unhurried
@given(valid_histories(), st.data())
def test_what_is_written_for_gemini_keeps_the_rules_of_that_wire(history: list[Message], data: st.DataObject) -> None:
    conversation = read_conversation(convert(history, "gemini"))
    messages = list(conversation.messages)
    for place in data.draw(st.sets(st.integers(0, len(messages) - 1), max_size=4)):
        messages[place] = {**messages[place], "content": "changed"}
    drawn = data.draw(st.integers(0, len(messages)))
    contents = conversation.write([{"role": "user", "content": "handoff"}, *repair(messages[drawn:]).messages])
    contents = contents["contents"]
    assert contents[0]["role"] == "user"
    waiting: list[Any] = []
    for before, content in pairwise([{"role": "user", "parts": []}, *contents]):
        answered = [part["functionResponse"]["id"] for part in content["parts"] if "functionResponse" in part]
        assert answered == waiting
        waiting = [part["functionCall"]["id"] for part in content["parts"] if "functionCall" in part]
        assert not waiting or (content["role"] == "model" and before["role"] == "user")
    assert not waiting
