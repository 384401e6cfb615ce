"""`clew.Projection`: the whole history in; out come the same bytes for what was folded, and the very objects."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import UserDict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.config import CompressionSettings
from clew.testing import assistant, call, tool, user

WINDOW = 8_000
TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}]


def rounds(first: int, count: int, chars: int = 900) -> list[Any]:
    """Questions, calls, results and answers, numbered."""
    messages: list[Any] = []
    for at in range(first, first + count):
        messages.append(user(f"Question {at}: what is in part_{at}.py?"))
        messages.append(assistant(None, [call("read_file", {"path": f"part_{at}.py"}, id=f"c{at}")]))
        messages.append(tool(f"c{at}", f"value_{at} = {at * 37}\n" + "x = 1\n" * (chars // 6)))
        messages.append(assistant(f"part_{at}.py sets value_{at} to {at * 37}."))
    return messages


def as_anthropic(messages: list[Any]) -> list[Any]:
    made: list[Any] = []
    for it in messages:
        if it["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": it["tool_call_id"], "content": it["content"]}
            made.append({"role": "user", "content": [block]})
        elif it.get("tool_calls"):
            uses = [
                {
                    "type": "tool_use",
                    "id": c["id"],
                    "name": "read_file",
                    "input": json.loads(c["function"]["arguments"]),
                }
                for c in it["tool_calls"]
            ]
            made.append({"role": "assistant", "content": uses})
        else:
            made.append({"role": it["role"], "content": [{"type": "text", "text": it["content"]}]})
    return made


def as_responses(messages: list[Any]) -> list[Any]:
    made: list[Any] = []
    for it in messages:
        if it["role"] == "tool":
            made.append({"type": "function_call_output", "call_id": it["tool_call_id"], "output": it["content"]})
        elif it.get("tool_calls"):
            for c in it["tool_calls"]:
                made.append({"type": "function_call", "call_id": c["id"], **c["function"]})
        else:
            kind = "output_text" if it["role"] == "assistant" else "input_text"
            made.append({"type": "message", "role": it["role"], "content": [{"type": kind, "text": it["content"]}]})
    return made


def as_gemini(messages: list[Any]) -> list[Any]:
    """Calls and responses without ids, as that wire mostly has them; what the model thought is signed."""
    made: list[Any] = []
    for it in messages:
        if it["role"] == "tool":
            response = {"name": "read_file", "response": {"output": it["content"]}}
            made.append({"role": "user", "parts": [{"functionResponse": response}]})
        elif it.get("tool_calls"):
            args = [json.loads(c["function"]["arguments"]) for c in it["tool_calls"]]
            parts = [{"functionCall": {"name": "read_file", "args": a}, "thoughtSignature": "c2ln"} for a in args]
            made.append({"role": "model", "parts": parts})
        else:
            role = "model" if it["role"] == "assistant" else "user"
            made.append({"role": role, "parts": [{"text": it["content"]}]})
    return made


DIALECTS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "chat": list,
    "anthropic": as_anthropic,
    "responses": as_responses,
    "gemini": as_gemini,
}


def encoded(items: list[Any]) -> list[str]:
    return [json.dumps(item, sort_keys=True) for item in items]


def test_a_short_history_comes_back_as_the_very_objects() -> None:
    with clew.Projection(context_length=WINDOW) as view:
        history = rounds(0, 2)
        fitted = view.fit(history)
        assert all(one is other for one, other in zip(fitted, history, strict=True))
        assert view.compactions == []


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_between_two_folds_the_prefix_stays_the_same_and_what_follows_are_the_given_objects(dialect: str) -> None:
    history: list[Any] = []
    before: list[str] = []
    folds = folded_at = 0
    with clew.Projection(context_length=WINDOW) as view:
        for at in range(40):
            history += DIALECTS[dialect](rounds(at, 1))
            fitted = view.fit(history, system="You read files.", tools=TOOLS)
            now = encoded(fitted)
            if len(view.compactions) == folds:
                assert now[: len(before)] == before, at
            else:
                folded_at = len(history) - 1
            folds, before = len(view.compactions), now
            assert fitted[-1] is history[-1]
            # The newest result may be shortened by a fold; all that came after the last one are the given objects.
            newer = len(history) - folded_at
            assert all(one is other for one, other in zip(fitted[-newer:], history[folded_at:], strict=True))
    assert folds >= 2
    assert "Question 39" in before[-1] + before[-2] + before[-3] + before[-4]
    assert len(before) < len(history)


def test_system_messages_in_the_list_come_back_first_and_are_not_folded() -> None:
    prompt = {"role": "system", "content": "Never touch prod.db."}
    with clew.Projection(context_length=WINDOW) as view:
        fitted = view.fit([prompt, *rounds(0, 30)])
        assert fitted[0] is prompt
        assert len(view.compactions) == 1


def test_equal_messages_of_a_client_that_parses_anew_are_the_same_history() -> None:
    history = rounds(0, 30)
    with clew.Projection(context_length=WINDOW) as view:
        first = view.fit(history)
        parsed = json.loads(json.dumps(history))
        marked = [
            {**message, "cache_control": {"type": "ephemeral"}} if message is parsed[-1] else message
            for message in parsed
        ]
        again = view.fit(marked)
        assert len(view.compactions) == 1
        assert encoded(again[:-1]) == encoded(first[:-1])
        assert again[-1] is marked[-1]


def test_an_edited_earlier_message_is_a_branch_and_the_way_back_is_known() -> None:
    history = rounds(0, 30)
    with clew.Projection(context_length=WINDOW) as view:
        first = view.fit(history)
        session = view.session
        edited = [*history[:-4], user("Something else."), assistant("Yes.")]
        other = view.fit(edited)
        assert view.session != session
        assert other[-1] is edited[-1]
        assert "Question 29" not in json.dumps(other)
        back = view.fit(history)
        assert encoded(back) == encoded(first)


def test_it_survives_a_restart_and_folds_nothing_twice(tmp_path: Path) -> None:
    history = rounds(0, 30)
    with clew.Projection(context_length=WINDOW, store=tmp_path / "state.db") as view:
        before = encoded(view.fit(history))
    again = json.loads(json.dumps(history)) + rounds(30, 1)
    with clew.Projection(context_length=WINDOW, store=tmp_path / "state.db") as view:
        fitted = view.fit(again)
        assert encoded(fitted)[: len(before)] == before
        assert len(view.compactions) == 1
        assert fitted[-1] is again[-1]
        given = {id(item) for item in again}
        assert sum(id(item) in given for item in fitted) >= len(before) - 5


def test_undo_brings_every_message_back() -> None:
    history = rounds(0, 12)
    with clew.Projection(context_length=WINDOW) as view:
        assert view.undo() is False
        view.fit(history)
        assert len(view.compactions) == 1
        assert view.undo()
        assert [each.is_in_effect for each in view.compactions] == [False]


def test_recall_finds_what_was_folded_by_words_and_by_number() -> None:
    history = rounds(0, 30)
    with clew.Projection(context_length=WINDOW) as view:
        assert "value_3 = 111" not in json.dumps(view.fit(history))
        found = view.recall("value_3")
        assert any("value_3 = 111" in str(each.message["content"]) for each in found)
        number = next(each.number for each in found if each.message["role"] == "tool")
        (opened,) = view.recall(f"m{number}")
        assert opened.message["content"] == history[number]["content"] and opened.number == number
        assert "value_3 = 111" in view.recall(f"m{number}", around="value_3", chars=200)[0].snippet
        assert [each.number for each in view.recall("m1-m3")] == [1, 2, 3]
        with pytest.raises(clew.InvalidArgument, match="such as m12"):
            view.recall(" ")


def test_real_usage_corrects_the_count_and_is_recorded() -> None:
    history = rounds(0, 4)
    with clew.Projection(context_length=WINDOW) as view:
        view.fit(history)
        assert view.compactions == []
        view.observe({"prompt_tokens": 7_000, "completion_tokens": 10})
        history += rounds(4, 1)
        view.fit(history)
        assert len(view.compactions) == 1


def test_a_model_of_ones_own_writes_the_handoff() -> None:
    asked: list[str] = []

    def write(prompt: str) -> str:
        asked.append(prompt)
        raise RuntimeError("it is asleep")

    with clew.Projection(context_length=WINDOW, summarizer=write) as view:
        view.fit(rounds(0, 30))
        assert asked
        assert len(view.compactions) == 1


async def test_from_async_code_and_from_several_tasks_at_once() -> None:
    history = rounds(0, 30)
    with clew.Projection(context_length=WINDOW) as view:
        many = await asyncio.gather(*(view.afit(history) for _ in range(4)))
        assert len({json.dumps(each) for each in many}) == 1
        await view.aobserve({"prompt_tokens": 100, "completion_tokens": 1})
        assert len(await asyncio.to_thread(lambda: view.compactions)) == 1


def test_settings_and_engines_are_taken() -> None:
    with clew.Projection(
        context_length=64_000, settings=CompressionSettings(threshold=0.02), engine="compressor"
    ) as view:
        view.fit(rounds(0, 10))
        assert len(view.compactions) == 1
    with pytest.raises(clew.PluginError):
        clew.Projection(engine="no-such-engine")


def test_objects_of_an_sdk_come_back_as_they_are() -> None:
    from openai.types.chat import ChatCompletionMessage

    reply = ChatCompletionMessage(role="assistant", content="It is late.")
    with clew.Projection(context_length=WINDOW) as view:
        assert view.fit([user("Which clock?"), reply])[1] is reply
        longer = view.fit([user("Which clock?"), reply, *rounds(0, 30)])
        assert len(view.compactions) == 1
        assert len(longer) < 60


def test_gemini_contents_that_lost_their_signatures_are_the_same_history() -> None:
    history = as_gemini(rounds(0, 30))
    with clew.Projection(context_length=WINDOW) as view:
        first = view.fit(history, system={"parts": [{"text": "You read files."}]})
        resumed = json.loads(json.dumps(history).replace(', "thoughtSignature": "c2ln"', ""))
        session = view.session
        again = view.fit(resumed)
        assert view.session == session and len(view.compactions) == 1
        assert "thoughtSignature" in json.dumps(first) and "thoughtSignature" not in json.dumps(again)
        assert json.dumps(again) == json.dumps(first).replace(', "thoughtSignature": "c2ln"', "")
        contents = view.fit(resumed + as_gemini(rounds(30, 12)))
        assert len(view.compactions) == 2
        assert contents[0]["role"] == "user"
        assert not [part for content in contents for part in content["parts"] if "id" in str(part.get("functionCall"))]


@pytest.mark.parametrize("wrong", [5, None, "text", [7], [{"no": "role"}]])
def test_what_is_no_history_is_refused(wrong: Any) -> None:
    with clew.Projection() as view, pytest.raises(clew.ClewError):
        view.fit(wrong)


def test_another_conversation_shares_the_store_and_nothing_else(tmp_path: Path) -> None:
    with clew.Projection(context_length=WINDOW, store=tmp_path / "clew.db") as view:
        other = view.another()
        view.fit(rounds(0, 30))
        other.fit([user("Something else."), *rounds(100, 2)])
        assert other.session != view.session
        assert (len(view.compactions), len(other.compactions)) == (1, 0)
        other.close()
        assert view.fit(rounds(0, 30))[-1] == rounds(0, 30)[-1]


def test_a_named_conversation_is_never_taken_for_another_and_is_found_again(tmp_path: Path) -> None:
    history = rounds(0, 30)
    with clew.Projection(context_length=WINDOW, store=tmp_path / "clew.db", name="thread-1") as view:
        folded, first = view.fit(history), view.session
        other = view.another(name="thread-2")
        assert len(other.fit(history[:4])) == 4
        assert other.session == "thread-2" != view.session
    with clew.Projection(context_length=WINDOW, store=tmp_path / "clew.db", name="thread-1") as view:
        assert json.dumps(view.fit(history)) == json.dumps(folded)
        assert view.session == first and len(view.compactions) == 1
    with pytest.raises(clew.InvalidArgument, match="give one of them"):
        clew.Projection(session="one", name="two")


def test_it_folds_when_it_is_told_to() -> None:
    history = rounds(0, 12)
    with clew.Projection(context_length=64_000) as view:
        assert view.compact() is False
        assert view.fit(history) == history
        assert view.compact("part_3.py") is True
        assert len(view.fit(history)) < len(history)
        assert len(view.compactions) == 1


def test_a_large_history_is_read_while_another_conversation_goes_on() -> None:
    other_is_done, waited = threading.Event(), list[bool]()

    class Slow(UserDict[str, Any]):
        """A message that can only be read once the other conversation has its answer."""

        def keys(self) -> Any:
            waited.append(other_is_done.wait(20))
            return super().keys()

    with clew.Projection(context_length=200_000) as large:
        history = [*rounds(0, 60), Slow(user("and the last one"))]
        reading = threading.Thread(target=large.fit, args=(history,))
        reading.start()
        assert large.another().fit([user("a short question")]) == [user("a short question")]
        other_is_done.set()
        reading.join()
    assert waited and all(waited)


@pytest.mark.parametrize("engine", ["compressor", "lcm"])
def test_a_shortened_result_names_the_command_that_it_is_of_where_all_calls_have_one_id(engine: str) -> None:
    history: list[Any] = [user("Release it.")]
    for number in range(20):
        command = {"command": f"step {number}"}
        history += [assistant(None, [call("terminal", command, id="call_0")]), tool("call_0", f"line {number}\n" * 400)]
    with clew.Projection(context_length=WINDOW, engine=engine) as view:
        shown = view.fit([*history, assistant("Done."), user("And now?")])
    shortened = []
    for before, result in pairwise(shown):
        said = result["content"] if result["role"] == "tool" else ""
        if said.startswith("[terminal]"):
            command = json.loads(before["tool_calls"][0]["function"]["arguments"])["command"]
            shortened.append(f'ran "{command}"' in said)
    assert len(shortened) > 2 and all(shortened)


def test_a_named_conversation_is_found_by_its_session_too_and_stored_once(tmp_path: Path) -> None:
    store, history = tmp_path / "clew.db", rounds(0, 30)
    with clew.Projection(context_length=WINDOW, store=store, name="thread-1") as view:
        folded, session = view.fit(history), view.session
    with clew.Projection(context_length=WINDOW, store=store, session=session) as view:
        assert json.dumps(view.fit(history)) == json.dumps(folded)
        assert view.session == session and len(view.compactions) == 1
        found = [it.message["content"] for it in view.recall("part_17.py sets value_17")]
        assert found.count("part_17.py sets value_17 to 629.") == 1
