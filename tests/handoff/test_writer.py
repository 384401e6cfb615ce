"""Every failure of a model ends with a valid summary, a warning that names what happened, and the right cooldown."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from clew.handoff import (
    BUILTIN,
    ConversationExtension,
    Cooldowns,
    ModelSummarizer,
    ModelSummary,
    Summary,
    SummaryInput,
    SummaryModel,
    summary_model,
)
from clew.messages import Message
from clew.providers import RetryPolicy
from clew.testing import assistant, call, tool, user
from clew.tokens import counter_for
from tests.support.summaries import RecordedSleep, ScriptedSummaryModel, fails, handoff_text, summary_input_of

count = counter_for(None).text
BUDGET = 700
HISTORY = [
    user("Port src/uploader.py to asyncio. Never touch prod.db."),
    assistant("I read it first.", [call("read_file", {"path": "src/uploader.py"}, "c1")]),
    tool("c1", "class Uploader:\n    DEFAULT_CHUNK = 5_242_880\n    def put(self): ...\n"),
    assistant(None, [call("terminal", {"command": "pytest -q tests/test_uploader.py"}, "c2")]),
    tool("c2", "E   AssertionError: 3 != 5\n2 failed, 14 passed\nexit code: 1"),
    assistant(None, [call("patch", {"path": "src/uploader.py", "old_string": "a", "new_string": "b"}, "c3")]),
    tool("c3", "ok"),
]
TASK = "Also add jitter."


def source_of(messages: list[Message]) -> SummaryInput:
    """The input of a summary of the messages, with the newest request behind them."""
    many = len(messages)
    return summary_input_of([*messages, user(TASK)], last=many, task=TASK, task_number=many)


SOURCE = source_of(HISTORY)
GOOD = handoff_text(
    active_task='"Also add jitter." (m7)',
    goal="The uploader runs on asyncio.",
    completed_actions=["1. READ src/uploader.py [read_file m1]", "2. CHANGED src/uploader.py [patch m5]"],
    critical_context="DEFAULT_CHUNK 5_242_880.",
)


async def summarized(*models: ScriptedSummaryModel, source: SummaryInput = SOURCE) -> Summary:
    write = ModelSummarizer([one.model for one in models], count=count, sleep=RecordedSleep())
    summary = await write(source, BUDGET)
    assert_is_valid(summary)
    return summary


def cooldowns_of(summary: Summary) -> dict[str, Any]:
    assert summary.cooldowns is not None
    return summary.cooldowns.as_json()


def after(summary: Summary) -> SummaryInput:
    """The same input with the cooldowns that came out with a summary."""
    assert summary.cooldowns is not None
    return replace(SOURCE, cooldowns=summary.cooldowns)


def assert_is_valid(summary: Summary) -> None:
    assert count(summary.text) <= BUDGET
    for fact in (TASK, "Never touch prod.db.", "src/uploader.py"):
        assert fact in summary.text


def retry_policy(jitter: float) -> RetryPolicy:
    return RetryPolicy(first_wait_seconds=1.0, max_wait_seconds=20.0, jitter=lambda: jitter)


def failing(status: int | None, error: Exception | None = None) -> Any:
    def model(prompt: str) -> str:
        if error is not None:
            raise error
        refused = RuntimeError(f"status {status}")
        refused.status_code = status  # type: ignore[attr-defined]
        raise refused

    return model


@pytest.mark.parametrize(
    ("function", "reason", "cooldown_seconds"),
    [
        (failing(401), "refused the credentials", 600),
        (failing(402), "has no credit or quota left", 600),
        (failing(403), "refused the credentials", 600),
        (failing(404), "refused the request", 600),
        (failing(429), "is rate limited", 60),
        (failing(500), "is overloaded or failed on its side", 60),
        (failing(529), "is overloaded or failed on its side", 60),
        (failing(None, TimeoutError()), "did not answer in time", 60),
        (failing(None, ConnectionResetError("cut")), "could not be reached or broke off", 60),
        (lambda _: "", "wrote nothing", 60),
        (lambda _: None, "wrote nothing", 60),
        (
            lambda _: {"choices": [{"message": {"content": "## Act"}, "finish_reason": "length"}]},
            "was cut off",
            60,
        ),
        (lambda _: "Sure, I add the jitter now!", "wrote something that is no handoff", 60),
        (lambda _: '{"summary": []}', "wrote something that is no handoff", 60),
        (lambda _: 42, "wrote something that is no handoff", 60),
        (lambda _: GOOD + "\n- again and again" * 500, "repeated itself", 60),
        (lambda _: "<think>what to do?</think>", "only thought aloud", 60),
        (failing(None, ValueError("odd")), "failed (ValueError odd)", 60),
    ],
)
async def test_the_built_in_summariser_writes_it_and_the_person_is_told_why(
    function: Any, reason: str, cooldown_seconds: float
) -> None:
    model = summary_model(function, name="fast")
    write = ModelSummarizer([model], count=count, clock=lambda: 1_000.0, sleep=RecordedSleep())
    summary = await write(SOURCE, BUDGET)
    assert_is_valid(summary)
    assert summary.written_by == BUILTIN
    (warning,) = summary.warnings
    assert warning.startswith("The summary was written by the built-in summariser: fast ")
    assert reason in warning
    assert cooldowns_of(summary)["fast"]["until"] == 1_000 + cooldown_seconds


async def test_a_model_that_answers_writes_it_without_a_warning() -> None:
    model = ScriptedSummaryModel(GOOD, name="fast")
    summary = await summarized(model)
    assert isinstance(summary, ModelSummary)
    assert (summary.written_by, summary.template, summary.warnings) == ("fast", "first/3", ())
    assert summary.coverage is not None and (summary.coverage.first, summary.coverage.last) == (0, 7)


async def test_a_transient_failure_is_tried_again_with_growing_waits() -> None:
    waits = RecordedSleep()
    model = ScriptedSummaryModel(fails("overloaded"), fails("network"), GOOD)
    write = ModelSummarizer([model.model], count=count, sleep=waits, retry_policy=retry_policy(1.0))
    assert (await write(SOURCE, BUDGET)).written_by == "scripted"
    assert waits.seconds == [1.0, 2.0]


async def test_the_wait_that_a_provider_asks_for_is_honoured() -> None:
    waits = RecordedSleep()
    model = ScriptedSummaryModel(fails("rate_limit", retry_after=9), GOOD)
    await ModelSummarizer([model.model], count=count, sleep=waits, retry_policy=retry_policy(0.0))(SOURCE, BUDGET)
    assert waits.seconds == [9]


async def test_a_wait_that_is_too_long_is_not_waited_for_but_remembered() -> None:
    waits = RecordedSleep()
    model = ScriptedSummaryModel(fails("rate_limit", retry_after=900))
    write = ModelSummarizer([model.model], count=count, sleep=waits, clock=lambda: 0.0)
    summary = await write(SOURCE, BUDGET)
    assert summary.written_by == BUILTIN
    assert (len(model.prompts), waits.seconds, cooldowns_of(summary)["scripted"]["until"]) == (1, [], 900)


async def test_retries_end() -> None:
    model = ScriptedSummaryModel(fails("overloaded"))
    assert (await summarized(model)).written_by == BUILTIN
    assert len(model.prompts) == 3


async def test_refused_credentials_are_not_tried_again() -> None:
    model = ScriptedSummaryModel(fails("auth"))
    await summarized(model)
    assert len(model.prompts) == 1


async def test_the_main_model_follows_the_configured_one() -> None:
    summary = await summarized(
        ScriptedSummaryModel(fails("auth"), name="fast"), ScriptedSummaryModel(GOOD, name="main")
    )
    assert summary.written_by == "main"
    assert summary.warnings[0].startswith("The summary was written by main: fast refused the credentials")


async def test_a_model_in_cooldown_is_not_asked_until_the_cooldown_is_over_or_cleared() -> None:
    now = [0.0]
    model = ScriptedSummaryModel(fails("quota"), GOOD, name="fast")
    write = ModelSummarizer([model.model], count=count, clock=lambda: now[0], sleep=RecordedSleep())
    failed = await write(SOURCE, BUDGET)
    now[0] = 599.0
    cooling = await write(after(failed), BUDGET)
    assert (cooling.written_by, len(model.prompts)) == (BUILTIN, 1)
    assert "fast rests for another 1 s, since it has no credit or quota left" in cooling.warnings[0]
    assert cooldowns_of(cooling) == cooldowns_of(failed)
    assert (await write(SOURCE, BUDGET)).written_by == "fast"


async def test_a_model_that_answers_again_has_no_rest_left() -> None:
    now = [0.0]
    model = ScriptedSummaryModel(fails("auth"), GOOD)
    write = ModelSummarizer([model.model], count=count, clock=lambda: now[0])
    failed = await write(SOURCE, BUDGET)
    assert set(cooldowns_of(failed)) == {"scripted"}
    now[0] = 601.0
    answered = await write(after(failed), BUDGET)
    assert answered.written_by == "scripted"
    assert cooldowns_of(answered) == {}


async def test_a_reply_that_was_cut_off_is_used_as_far_as_it_goes_and_completed() -> None:
    def cut(prompt: str) -> dict[str, Any]:
        return {"choices": [{"message": {"content": GOOD.split("2. CHANGED")[0]}, "finish_reason": "length"}]}

    write = ModelSummarizer([summary_model(cut, name="fast")], count=count)
    summary = await write(SOURCE, BUDGET)
    assert_is_valid(summary)
    assert summary.written_by == "fast"
    assert "stopped before the end of its handoff" in summary.warnings[0]


async def test_what_the_conversation_does_not_show_is_reported() -> None:
    strange = handoff_text(completed_actions=[f"Read src/other_{number}.py at {number}741" for number in range(1, 9)])
    summary = await ModelSummarizer([ScriptedSummaryModel(strange).model], count=count)(SOURCE, BUDGET)
    assert summary.written_by == "scripted"
    assert {f"src/other_{number}.py" for number in range(1, 9)} < set(summary.unverified)
    assert any("src/other_1.py" in warning for warning in summary.warnings)


CHATTY = handoff_text(
    goal="The uploader runs on asyncio.",
    completed_actions=[
        *(f"{number}. Thought about the weather and the {number}th cloud at length again" for number in range(1, 60)),
        "60. CHANGED src/uploader.py, DEFAULT_CHUNK [patch m5]",
    ],
)


async def test_a_handoff_above_the_budget_is_shortened() -> None:
    summary = await ModelSummarizer([ScriptedSummaryModel(CHATTY).model], count=count)(SOURCE, BUDGET)
    assert summary.written_by == "scripted"
    assert count(summary.text) <= BUDGET
    assert any("of its lines were left out" in warning for warning in summary.warnings)
    assert "CHANGED src/uploader.py, DEFAULT_CHUNK" in summary.text


async def test_a_handoff_above_the_budget_gets_what_is_certain_and_missing_too() -> None:
    await summarized(ScriptedSummaryModel(CHATTY))


async def test_a_prompt_that_is_too_long_for_the_provider_is_made_smaller() -> None:
    model = ScriptedSummaryModel(fails("prompt_too_long", limit=4_000), context_length=32_000)
    long = source_of([*HISTORY, *([user("more words " * 400)] * 6)])
    replies = ScriptedSummaryModel(fails("prompt_too_long", limit=4_000), GOOD, context_length=32_000)
    assert (await summarized(replies, source=long)).written_by == "scripted"
    assert count(replies.prompts[0]) > 4_000
    assert all(count(prompt) < 4_000 for prompt in replies.prompts[1:])
    assert (await summarized(model, source=long)).written_by == BUILTIN
    assert len(model.prompts) == 4


async def test_an_output_that_is_too_large_for_the_provider_is_made_smaller() -> None:
    model = ScriptedSummaryModel(fails("output_cap_too_large"), GOOD)
    assert (await summarized(model)).written_by == "scripted"
    assert model.max_tokens[1] < model.max_tokens[0]


async def test_another_model_goes_on_where_the_first_one_failed() -> None:
    long = source_of([*HISTORY, *([user("more words " * 400)] * 12)])
    first = ScriptedSummaryModel(GOOD, GOOD, fails("auth"), name="fast", context_length=4_000)
    second = ScriptedSummaryModel(GOOD, name="main", context_length=8_000)
    summary = await summarized(first, second, source=long)
    assert summary.written_by == "main"
    assert "@@" in second.prompts[0] and " m0 user" not in second.prompts[0]
    assert isinstance(summary, ModelSummary)
    assert summary.coverage is not None and summary.coverage.last == len(HISTORY) + 12


async def test_a_window_that_has_no_room_for_anything_leads_to_the_built_in_one_and_no_cooldown() -> None:
    summary = await summarized(ScriptedSummaryModel(GOOD, context_length=300))
    assert "has too small a window for this" in summary.warnings[0]
    assert cooldowns_of(summary) == {}


async def test_without_a_model_the_built_in_one_writes_and_nothing_needs_explaining() -> None:
    summary = await summarized()
    assert (summary.written_by, summary.warnings) == (BUILTIN, ())


async def test_nothing_new_is_no_reason_to_ask_a_model() -> None:
    model = ScriptedSummaryModel(GOOD)
    write = ModelSummarizer([model.model], count=count)
    assert (await write(summary_input_of(HISTORY, first=7, last=7), BUDGET)).written_by == BUILTIN
    assert model.prompts == []


async def test_no_secret_leaves_by_any_way() -> None:
    secret = "ghp_" + "aB3" * 12
    history = [*HISTORY, user(f"Always log in with {secret}."), tool("c9", f"GITHUB_TOKEN={secret}")]
    source = summary_input_of(history, task=f"use {secret}", task_number=9)
    leaky = handoff_text(goal=f"log in with {secret}", active_task="x", critical_context="y")
    for model in (ScriptedSummaryModel(leaky), ScriptedSummaryModel(fails("auth"))):
        summary = await ModelSummarizer([model.model], count=count)(source, BUDGET)
        assert secret not in summary.text
        assert all(secret not in prompt for prompt in model.prompts)


async def test_a_summary_in_chinese_is_as_good_as_any() -> None:
    history = [
        user("把 src/上传.py 改成异步，不要动 prod.db。"),
        assistant("好的，我先看 src/uploader.py。", [call("read_file", {"path": "src/uploader.py"}, "c1")]),
        tool("c1", "端口 = 8443"),
    ]
    told = handoff_text(goal="把上传改成异步。", completed_actions="1. 读了src/uploader.py，端口8443")
    write = ModelSummarizer([ScriptedSummaryModel(told).model], count=count)
    summary = await write(summary_input_of(history, task="继续", task_number=3), 400)
    assert "不要动 prod.db" in summary.text
    assert "读了src/uploader.py，端口8443" in summary.text


def test_a_cooldown_survives_a_restart_as_plain_json() -> None:
    cooldowns = Cooldowns().start("fast", 60, "is rate limited", now=1_000)
    again = Cooldowns.of_json(json.loads(json.dumps(cooldowns.as_json())))
    assert again == cooldowns
    cooldown = again.active("fast", 1_059)
    assert cooldown is not None and cooldown.reason == "is rate limited"
    assert again.active("fast", 1_060) is None
    assert again.active("main", 1_000) is None


def test_a_cooldown_that_starts_or_ends_leaves_the_former_value_as_it_was() -> None:
    before = Cooldowns().start("fast", 600, "refused", now=0)
    assert before.end("fast").as_json() == {} and before.end("main") == before
    assert set(before.start("main", 600, "refused", now=0).by_model) == {"fast", "main"}
    assert before.start("main", 0, "a failure without a cooldown", now=0) == before
    assert set(before.by_model) == {"fast"}


@pytest.mark.parametrize("stored", [None, [], "x", {"fast": 3}, {"fast": {"until": "soon"}}, {"fast": {"until": True}}])
def test_what_cannot_be_read_is_dropped(stored: object) -> None:
    assert Cooldowns.of_json(stored).as_json() == {}


def test_a_clock_that_was_set_back_makes_no_cooldown_last_for_days() -> None:
    cooldowns = Cooldowns().start("fast", 60, "x", now=1_000_000)
    assert cooldowns.active("fast", 10) is None


def test_no_cooldown_is_longer_than_an_hour() -> None:
    cooldowns = Cooldowns().start("fast", 1e9, "x", now=0)
    assert cooldowns.as_json()["fast"]["until"] == 3_600


@pytest.mark.parametrize(("share", "is_brief"), [(0.5, False), (0.72, True)])
async def test_where_a_small_window_is_filling_the_instruction_behind_the_conversation_is_brief(
    share: float, is_brief: bool
) -> None:
    window, asked = 8_192, list[str]()

    async def complete(instruction: str, max_tokens: int) -> str:
        assert int(share * window) + count(instruction) + max_tokens < window
        asked.append(instruction)
        return GOOD

    async def refuse(prompt: str, max_tokens: int) -> str:
        raise fails("window_too_small", f"{len(prompt)} chars, {max_tokens} tokens")

    exchanges = [[user(f"question {at} " + "with many words " * 20), assistant(f"answer {at}")] for at in range(30)]
    source = source_of([message for exchange in exchanges for message in exchange])
    extension = ConversationExtension(complete, int(share * window), range(62), is_only_way=True)
    summary = await ModelSummarizer([SummaryModel("small", refuse, window, None, extension)], count)(source, 400)
    assert summary.written_by == "small" and len(asked) == 1
    assert ("question 29" in asked[0]) and ("question 3 " not in asked[0]) is is_brief
