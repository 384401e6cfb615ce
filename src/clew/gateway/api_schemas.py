"""The shapes of what hosted conversations take and give, as JSON Schema."""

from __future__ import annotations

from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

MAX_CONTENT_CHARS = 1_000_000
MAX_NAME_CHARS = 200
# What a text column holds: no NUL.
_PLAIN = "^[^\\u0000]*$"


def text_schema(about: str, **more: Any) -> Schema:
    return {"type": "string", "description": about, **more}


def name_schema(about: str) -> Schema:
    return text_schema(about, minLength=1, maxLength=MAX_NAME_CHARS, pattern=_PLAIN)


def number_schema(about: str, **more: Any) -> Schema:
    return {"type": "integer", "description": about, **more}


def flag_schema(about: str) -> Schema:
    return {"type": "boolean", "description": about}


def or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def list_schema(items: Schema, about: str = "") -> Schema:
    return {"type": "array", "items": items, **({"description": about} if about else {})}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def body_schema(*, exclude: tuple[tuple[str, str], ...] = (), **fields: Schema) -> Schema:
    """A request body: fields that nobody knows are refused, and so are two that exclude each other."""
    schema: Schema = {"type": "object", "properties": fields, "additionalProperties": False}
    if exclude:
        schema["not"] = {"anyOf": [{"required": list(pair)} for pair in exclude]}
    return schema


def object_schema(**fields: Schema) -> Schema:
    """An answer: every field is always there."""
    return {"type": "object", "properties": fields, "required": list(fields)}


ID = text_schema("The id of a conversation. It stays the same, however often the conversation is compacted.")
_TIME = text_schema("A time, with its offset.", format="date-time")
_TOKENS = number_schema("Tokens.", minimum=0)
_COST = or_null({"type": "number", "description": "Dollars; null where no price is known."})
HANDOFF_SECTIONS: Schema = {
    "type": "object",
    "description": "The handoff as a value: under each heading its entries, as [text, [message numbers], [lines]].",
    "additionalProperties": {"type": "array", "items": {"type": "array"}},
}
CONTENT = text_schema("What is asked.", minLength=1, maxLength=MAX_CONTENT_CHARS)
STREAM = flag_schema("Answer with events (text/event-stream) while the model writes: `delta`, then `done` or `error`.")

SCHEMAS: dict[str, Schema] = {
    "Error": object_schema(
        error=object_schema(
            message=text_schema("What is wrong."),
            kind=text_schema("One word for programs: bad_request, not_found, conflict, auth, rate_limit, ..."),
            remedy=text_schema("What to do about it."),
        )
    ),
    "Usage": object_schema(
        input_tokens=_TOKENS,
        output_tokens=_TOKENS,
        cache_read_tokens=_TOKENS,
        cache_write_tokens=_TOKENS,
        reasoning_tokens=_TOKENS,
        prompt_tokens=number_schema("Input, read from the cache and written to it together.", minimum=0),
        total_tokens=_TOKENS,
    ),
    "Conversation": object_schema(
        id=ID,
        title=or_null(text_schema("Its name; null where it has none.")),
        model=or_null(text_schema("The model that answers.")),
        source=text_schema(
            "`hosted`; `gateway` for one that a client sent through the wires: it can be read, not talked to."
        ),
        created=_TIME,
        branch_of=or_null(text_schema("The session that it is a branch of.")),
        session=text_schema("Its newest session, as `clew sessions` names it: a compaction goes on in another one."),
    ),
    "ConversationDetails": {
        "allOf": [
            ref("Conversation"),
            object_schema(
                system=or_null(text_schema("The system prompt.")),
                messages=number_schema("Messages in the history.", minimum=0),
                in_view=number_schema("Messages that the model is shown.", minimum=0),
                compactions=number_schema("Compactions that are in effect.", minimum=0),
            ),
        ]
    },
    "ConversationList": object_schema(
        conversations=list_schema(ref("Conversation"), "Newest first."),
        next=or_null(text_schema("`before` for the next page; null where there is none.")),
    ),
    "StoredMessage": object_schema(
        seq=number_schema("Its number in the conversation, from 0.", minimum=0),
        at=_TIME,
        tokens=or_null(_TOKENS),
        message={"type": "object", "description": "The message, as OpenAI chat writes it."},
    ),
    "MessageList": object_schema(
        messages=list_schema(ref("StoredMessage"), "In their order."),
        next=or_null(number_schema("`after` for the next page; null where there is none.")),
    ),
    "OpenedMessages": object_schema(
        messages=list_schema(
            object_schema(
                seq=number_schema("Its number.", minimum=0),
                role=text_schema("Of the message."),
                at=_TIME,
                chars=number_schema("Of its whole text.", minimum=0),
                parts=list_schema(
                    object_schema(
                        start=number_schema("Where it begins.", minimum=0), text=text_schema("Word for word.")
                    ),
                    "What is shown of the text.",
                ),
                call=or_null(number_schema("Of a result: the message with its call.")),
                results=list_schema(or_null(number_schema("The result of a call.")), "Of a message with calls."),
            ),
            "As they were asked for.",
        ),
        next=or_null(text_schema("`messages` to read on; null at the end.")),
    ),
    "Answer": object_schema(
        conversation=ID,
        seq=number_schema("The number of the answer in the history.", minimum=0),
        role=text_schema("`assistant`."),
        content=text_schema("What the model answered."),
        model=text_schema("As its provider names it."),
        finish=text_schema("Why it ended: stop, length, refusal, tool_calls, other."),
        usage={"anyOf": [ref("Usage"), {"type": "null"}], "description": "Null where the provider reported none."},
        cost_usd=_COST,
        is_repeated=flag_schema("The answer to the same Idempotency-Key before; the model was not asked again."),
    ),
    "CompactionResult": object_schema(
        conversation=ID,
        is_changed=flag_schema("Whether anything is, or would be, folded."),
        is_applied=flag_schema("Whether it is in effect."),
        preview=or_null(text_schema("`apply` for exactly this; null where there is nothing to apply.")),
        tokens_before=_TOKENS,
        tokens_after=_TOKENS,
        folded=number_schema("Messages that one handoff stands for.", minimum=0),
        shortened=number_schema("Messages of which a part is shown.", minimum=0),
        removed=number_schema("Messages that are not shown.", minimum=0),
        written_by=or_null(text_schema("Who wrote the handoff.")),
        focus=or_null(text_schema("What it was asked to look at.")),
        handoff=or_null(text_schema("The handoff, as the model sees it.")),
        handoff_sections=or_null(HANDOFF_SECTIONS),
        unverified=list_schema(text_schema("Said in the handoff and not found in the originals.")),
        warnings=list_schema(text_schema("For people.")),
    ),
    "UndoResult": object_schema(
        conversation=ID,
        is_undone=flag_schema("False where no compaction was in effect."),
        in_view=number_schema("Messages that the model is shown now.", minimum=0),
        tokens=_TOKENS,
    ),
    "Compaction": object_schema(
        at=_TIME,
        is_in_effect=flag_schema("False where it was undone."),
        tokens_before=_TOKENS,
        tokens_after=_TOKENS,
        written_by=text_schema("Who wrote the handoff; empty where there is none."),
        focus=or_null(text_schema("What it was asked to look at.")),
        first=number_schema("The first message that it replaced.", minimum=0),
        stop=number_schema("The first message behind those that it replaced.", minimum=0),
    ),
    "CompactionList": object_schema(compactions=list_schema(ref("Compaction"), "Oldest first.")),
    "Context": object_schema(
        conversation=ID,
        model=text_schema("The model that answers."),
        tokens=number_schema("The next request, as it is counted before it is sent.", minimum=0),
        window=number_schema("What the model takes.", minimum=0),
        threshold=or_null(number_schema("From there on it is compacted; null where that is switched off.")),
        paused=or_null(text_schema("Why automatic compaction stopped, where it did.")),
        last_prompt_tokens=number_schema("As the provider counted the newest prompt; 0 where it did not.", minimum=0),
        parts=list_schema(
            object_schema(
                name=text_schema(
                    "system, memory, pinned, tools, head, summary, middle (what a compaction folds) or tail."
                ),
                tokens=number_schema("They add up to the tokens of the request."),
                messages=number_schema("How many messages it is of.", minimum=0),
            )
        ),
    ),
    "Pin": object_schema(
        number=number_schema("For deleting it.", minimum=1),
        label=text_schema("Its name."),
        text=text_schema("Word for word."),
    ),
    "PinList": object_schema(pins=list_schema(ref("Pin"))),
    "SearchResults": object_schema(
        query=text_schema("As it was asked."),
        hits=list_schema(
            object_schema(
                conversation=or_null(ID),
                title=or_null(text_schema("Of the conversation.")),
                kind=text_schema("message, summary or output."),
                seq=or_null(number_schema("Of the message; of others, how many messages came before.")),
                role=or_null(text_schema("Of the message.")),
                at=_TIME,
                score={"type": "number", "description": "Higher is better."},
                snippet=text_schema("The text around the best matches."),
                marks=list_schema(
                    list_schema(number_schema("From, and up to.")), "The ranges of the snippet that matched."
                ),
                excerpts=list_schema(text_schema("A part of the text."), "All that is shown of it, in order."),
                call=or_null(number_schema("Of a result: the message with its call.")),
                results=list_schema(or_null(number_schema("The result of a call.")), "Of a message with calls."),
                same_in=list_schema(number_schema("A message."), "Messages with nearly the same text."),
            ),
            "The best first.",
        ),
    ),
    "UsageReport": object_schema(
        groups=list_schema(
            object_schema(
                group={"type": "object", "description": "What these calls have in common."},
                calls=number_schema("Calls.", minimum=0),
                usage=ref("Usage"),
                cost_usd={"type": "number", "description": "Of the calls whose price is known."},
                calls_of_unknown_cost=number_schema("Calls without a known price.", minimum=0),
            )
        )
    ),
    "Stopped": object_schema(conversation=ID, is_stopped=flag_schema("False where no turn was under way here.")),
}
