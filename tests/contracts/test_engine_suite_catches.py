"""A contract suite is worth something only if a bad engine fails it: here are many, each bad in one way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from clew.engines import (
    Added,
    Changed,
    Compaction,
    CompactionItem,
    ContextEngine,
    EngineSetup,
    EngineStatus,
    Kept,
    Removed,
    SessionStart,
    Summarized,
    check_engine,
)
from clew.messages import Message, Tool
from clew.testing import system, user
from clew.tokens import count_tokens
from clew.usage import CanonicalUsage
from tests.contracts.engine_contract import WholeEngineContract
from tests.support.engines import PlainEngine


class Bad(PlainEngine):
    """An engine with a seam for spoiling its compaction."""

    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return done

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        return self.spoil(messages, await super().compress(messages, current_tokens, focus_topic, force))


class ChangesItsInput(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        for message in messages[:1]:
            message["content"] = "changed"
        return done


class ShortensInPlace(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        if done.changed and isinstance(messages, list):
            messages.pop()
        return done


class Grows(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, items=(*done.items, *map(Added, messages))) if done.changed else done


class GrowsByItsOwnAccount(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, tokens_after=done.tokens_before + 1) if done.changed else done


class MiscountsTheResult(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, tokens_after=done.tokens_after - 1) if done.changed else done


class PartsCallsFromResults(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return _with(done, lambda index: Removed(index) if messages[index].get("tool_calls") else Kept(index))


class LosesTheSystemPrompt(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return _with(done, lambda index: Removed(index) if messages[index]["role"] == "system" else Kept(index))


class RewritesTheNewestRequest(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return _with(done, lambda index: Changed(index, _shouted(messages[index])))


def _with(done: Compaction, kept: Callable[[int], CompactionItem]) -> Compaction:
    """The compaction with another item for each message that it kept."""
    if not done.changed:
        return done
    items = tuple(kept(item.index) if isinstance(item, Kept) else item for item in done.items)
    return _counted(done.source, replace(done, items=items))


def _shouted(message: Message) -> Message:
    content = message.get("content")
    return (
        {**message, "content": content.upper()} if message["role"] == "user" and isinstance(content, str) else message
    )


class LosesPictures(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return _with(done, lambda index: Changed(index, _without_pictures(messages[index])))


def _without_pictures(message: Message) -> Message:
    content = message.get("content")
    if message["role"] != "user" or not isinstance(content, list):
        return message
    return {**message, "content": [part for part in content if part["type"] == "text"]}


class CallsWhatItShortenedKept(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        items = (
            Changed(item.index, user("..."), shortened=False)
            if isinstance(item, Removed) and messages[item.index]["role"] == "user"
            else item
            for item in done.items
        )
        return _counted(messages, replace(done, items=tuple(items)))


class DoesNotSayWhatItRemoved(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, items=tuple(item for item in done.items if not isinstance(item, Removed)))


class KeepsAMessageTwice(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, items=(*done.items, done.items[-1])) if done.changed else done


class NamesAMessageThatIsNotThere(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, items=(*done.items, Removed(len(messages)))) if done.changed else done


class SummarizesWithoutAText(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        gone = tuple(item.index for item in done.items if isinstance(item, Removed))
        rest = [item for item in done.items if not isinstance(item, Removed)]
        summary = Summarized(user("All was well."), gone)
        return _counted(messages, replace(done, items=(summary, *rest))) if gone else done


def _counted(messages: Sequence[Message], done: Compaction) -> Compaction:
    """With the right figures: only what is meant to be wrong is wrong."""
    return replace(done, tokens_after=done.tokens_before - count_tokens(messages) + count_tokens(done.messages))


class DoesNothing(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return Compaction.nothing(messages, done.tokens_before)


class CopiesWhatItKeeps(Bad):
    """Says of messages that are the same that they were changed."""

    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        copies = [Changed(index, {**message}) for index, message in enumerate(messages)]
        return done if done.changed else replace(done, items=tuple(copies))


class TalksToTheModel(Bad):
    """Puts a word of its own into a conversation where there is nothing to fold."""

    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return done if done.changed else replace(done, items=(*done.items, Added(system("context is filling up"))))


class IgnoresTheCallersFigure(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, tokens_before=done.tokens_before // 2, tokens_after=done.tokens_after // 2)


class Rolls(Bad):
    """Never the same twice."""

    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, items=(*done.items, Added(user(str(random.random()))))) if done.changed else done


class CountsEveryCall(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, state={"compactions": self.get_status().compactions + 1})


class CountsNoCompaction(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, state=None)


class ChangesItsStateInCompress(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        self.restore(done.state)
        return done


class ChangesItsStateWhenAsked(PlainEngine):
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        self.restore({**self.state, "asked": self.state.get("asked", 0) + 1})
        return super().should_compress(prompt_tokens)


class RecordsObjects(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        return replace(done, records={"engine": self})


class NeedsAHost(PlainEngine):
    def on_session_start(self, start: SessionStart) -> None:
        super().on_session_start(start)
        assert start.host is not None, "no host, no engine"


class TripsOverBrokenMessages(Bad):
    def spoil(self, messages: Sequence[Message], done: Compaction) -> Compaction:
        assert all(message["content"] for message in messages if message["role"] == "user")
        return done


class FiresAboveTheThreshold(PlainEngine):
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return super().should_compress(None if prompt_tokens is None else prompt_tokens - 1)


class FiresEarly(PlainEngine):
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return super().should_compress(None if prompt_tokens is None else prompt_tokens + 1)


class CountsOutput(PlainEngine):
    def update_from_response(self, usage: CanonicalUsage) -> None:
        self.last_prompt_tokens = usage.total_tokens


class ForgetsTheCache(PlainEngine):
    def update_from_response(self, usage: CanonicalUsage) -> None:
        self.last_prompt_tokens = usage.input_tokens


class HasOneThreshold(PlainEngine):
    def get_status(self) -> EngineStatus:
        return replace(super().get_status(), threshold_tokens=1_500)


class FallsWithTheWindow(PlainEngine):
    def get_status(self) -> EngineStatus:
        status = super().get_status()
        return replace(status, threshold_tokens=min(status.context_length, 8_000_000 // status.context_length))


class LivesOutsideItsWindow(PlainEngine):
    def get_status(self) -> EngineStatus:
        status = super().get_status()
        return replace(status, threshold_tokens=status.context_length + 1)


class IgnoresAnotherModel(PlainEngine):
    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        pass


class NeverForgets(PlainEngine):
    def on_session_reset(self) -> None:
        pass


class RemembersObjects(PlainEngine):
    @property
    def state(self) -> Mapping[str, Any]:
        return {"of": self}


class ForgetsWhatItRemembered(PlainEngine):
    def on_session_start(self, start: SessionStart) -> None:
        pass


class KnowsItsStateTooWell(PlainEngine):
    def on_session_start(self, start: SessionStart) -> None:
        self.restore({"compactions": start.state["compactions"]} if start.state else {})


class HasNothingToFold(PlainEngine):
    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        return False


class AlwaysHasSomethingToFold(PlainEngine):
    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        return True


class HasNoName(PlainEngine):
    name = ""


class Stubborn(PlainEngine):
    """Goes on when it is cancelled."""

    async def compress(self, *given: Any, **more: Any) -> Compaction:
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        return await super().compress(*given, **more)


class StaysBusyWhenCancelled(PlainEngine):
    _busy = False

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        if self._busy:
            return Compaction.nothing(messages, 0)
        self._busy = True
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._busy = False
        return await super().compress(messages, current_tokens)


class WithTool(PlainEngine):
    schema: ClassVar[Tool] = {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {}},
    }

    def get_tool_schemas(self) -> list[Tool]:
        return [self.schema]


class DoesNotKnowItsOwnTool(WithTool):
    pass


class ToolHasNoDescription(WithTool):
    schema: ClassVar[Tool] = {"name": "look", "parameters": {"type": "object"}}


class ToolHasNoObject(WithTool):
    schema: ClassVar[Tool] = {"name": "look", "description": "Looks.", "parameters": {"type": "string"}}


class ToolAnswersWithADict(WithTool):
    async def handle_tool_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        return {"name": name}  # type: ignore[return-value]


class ToolRaisesOnWrongArguments(WithTool):
    schema: ClassVar[Tool] = {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Looks.",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
        },
    }

    async def handle_tool_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name != "look":
            raise LookupError(name)
        return str(arguments["at"])


class AnswersForEveryTool(PlainEngine):
    async def handle_tool_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        return "ok"


CAUGHT_BY: dict[type[PlainEngine], tuple[str, str]] = {
    ChangesItsInput: ("test_the_input_is_never_changed", "handed in have changed"),
    ShortensInPlace: ("test_the_input_is_never_changed", "handed in have changed"),
    Grows: ("test_long_conversations_become_shorter_and_keep_every_promise", "the result is larger"),
    GrowsByItsOwnAccount: (
        "test_long_conversations_become_shorter_and_keep_every_promise",
        "by its own account it grew",
    ),
    PartsCallsFromResults: ("test_long_conversations_become_shorter_and_keep_every_promise", "which was never called"),
    LosesTheSystemPrompt: (
        "test_long_conversations_become_shorter_and_keep_every_promise",
        "the system prompt is no longer there",
    ),
    RewritesTheNewestRequest: (
        "test_long_conversations_become_shorter_and_keep_every_promise",
        "the newest user message is no longer there",
    ),
    LosesPictures: (
        "test_long_conversations_become_shorter_and_keep_every_promise",
        "pictures: the newest user message",
    ),
    MiscountsTheResult: ("test_long_conversations_become_shorter_and_keep_every_promise", "tokens_after is"),
    CallsWhatItShortenedKept: (
        "test_long_conversations_become_shorter_and_keep_every_promise",
        "counts as kept but is not there",
    ),
    DoesNotSayWhatItRemoved: ("test_it_works_in_a_window_of_2000_tokens", "of the input is in 0 items"),
    KeepsAMessageTwice: ("test_it_works_in_a_window_of_2000_tokens", "of the input is in 2 items"),
    NamesAMessageThatIsNotThere: ("test_it_works_in_a_window_of_2000_tokens", "which are no indexes"),
    SummarizesWithoutAText: ("test_it_works_in_a_window_of_2000_tokens", "a summary has no text"),
    DoesNothing: ("test_it_works_in_a_window_of_2000_tokens", "nothing changed"),
    CopiesWhatItKeeps: ("test_where_there_is_nothing_to_fold_nothing_changes", "a system prompt alone: changed to"),
    TalksToTheModel: ("test_where_there_is_nothing_to_fold_nothing_changes", "nothing at all: changed to"),
    IgnoresTheCallersFigure: ("test_the_callers_figure_is_the_size_before", "tokens_before is 25000"),
    Rolls: ("test_the_same_messages_give_the_same_result", "two results"),
    CountsEveryCall: (
        "test_only_compactions_that_changed_something_are_counted",
        "nothing was compacted, but it is counted",
    ),
    CountsNoCompaction: (
        "test_a_compaction_changes_nothing_in_the_engine_until_it_is_in_effect",
        "counts no compaction",
    ),
    ChangesItsStateInCompress: (
        "test_a_compaction_changes_nothing_in_the_engine_until_it_is_in_effect",
        "use Compaction.state",
    ),
    ChangesItsStateWhenAsked: ("test_asking_whether_to_compress_changes_nothing", "should_compress(None): "),
    RecordsObjects: ("test_every_part_of_the_account_can_be_stored", "records must be plain JSON values"),
    NeedsAHost: ("test_every_step_of_a_session_passes_without_an_error", "no host, no engine"),
    TripsOverBrokenMessages: ("test_broken_conversations_do_not_raise", ""),
    FiresAboveTheThreshold: ("test_it_fires_at_the_threshold_and_not_below", "must fire"),
    FiresEarly: ("test_it_fires_at_the_threshold_and_not_below", "is below the threshold"),
    CountsOutput: ("test_output_and_reasoning_never_fire", "does not sit in the next prompt"),
    ForgetsTheCache: ("test_without_a_figure_the_last_real_prompt_counts", "tokens from the cache"),
    HasOneThreshold: ("test_the_threshold_rises_with_the_window_and_stays_inside", "for every window"),
    FallsWithTheWindow: ("test_the_threshold_rises_with_the_window_and_stays_inside", "they must rise"),
    LivesOutsideItsWindow: ("test_a_new_engine_shows_its_window_and_no_past", "must lie within the window"),
    IgnoresAnotherModel: ("test_a_smaller_window_can_fire_at_once", "no longer fit into 16,000"),
    NeverForgets: ("test_a_reset_forgets_the_past", "after a reset"),
    RemembersObjects: ("test_its_state_is_json_and_outlives_a_restart", "must be plain JSON values"),
    ForgetsWhatItRemembered: ("test_its_state_is_json_and_outlives_a_restart", "in a new process"),
    KnowsItsStateTooWell: ("test_a_state_of_another_version_does_not_raise", "'compactions'"),
    HasNothingToFold: ("test_it_sees_that_long_conversations_have_something_to_fold", "97 messages"),
    AlwaysHasSomethingToFold: ("test_where_there_is_nothing_to_fold_nothing_changes", "nothing between head and tail"),
    HasNoName: ("test_its_name_can_stand_in_a_config", "name = ''"),
    Stubborn: ("test_a_cancelled_compaction_leaves_it_usable", "must end with CancelledError"),
    StaysBusyWhenCancelled: ("test_a_cancelled_compaction_leaves_it_usable", "no longer usable"),
    DoesNotKnowItsOwnTool: ("test_each_of_its_tools_answers", "has no tool 'look'"),
    ToolHasNoDescription: ("test_its_tool_schemas_are_valid", "a description is missing"),
    ToolHasNoObject: ("test_its_tool_schemas_are_valid", "a JSON schema of an object"),
    ToolAnswersWithADict: ("test_each_of_its_tools_answers", "text is expected"),
    ToolRaisesOnWrongArguments: ("test_each_of_its_tools_answers", "'at'"),
    AnswersForEveryTool: ("test_a_tool_it_does_not_have_is_a_lookup_error", "LookupError is expected"),
}


@pytest.mark.parametrize("engine", CAUGHT_BY, ids=lambda engine: engine.__name__)
def test_the_suite_catches_a_bad_engine(engine: type[PlainEngine]) -> None:
    class Suite(WholeEngineContract):
        def make_engine(self, setup: EngineSetup) -> ContextEngine:
            return engine(setup)

    test, complaint = CAUGHT_BY[engine]
    with pytest.raises((AssertionError, LookupError)) as caught:
        getattr(Suite(), test)()
    assert complaint in str(caught.value)


def test_a_suite_that_does_not_say_how_its_engine_is_made_says_so() -> None:
    with pytest.raises(NotImplementedError, match="say how your engine is made"):
        WholeEngineContract().test_its_name_can_stand_in_a_config()


@pytest.mark.parametrize(
    "engine",
    [
        Grows,
        PartsCallsFromResults,
        LosesTheSystemPrompt,
        CountsOutput,
        FiresEarly,
        DoesNothing,
        RemembersObjects,
        ChangesItsStateInCompress,
        ChangesItsStateWhenAsked,
        DoesNotSayWhatItRemoved,
    ],
    ids=lambda engine: engine.__name__,
)
async def test_the_quick_check_catches_the_worst_too(engine: type[PlainEngine]) -> None:
    assert await check_engine(engine)


async def test_the_quick_check_has_nothing_to_say_of_a_good_engine() -> None:
    assert await check_engine(PlainEngine) == []
