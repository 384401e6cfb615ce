"""The same thing has the same figure on every page of a chat and in every command over the same store."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from clew import count_tokens
from clew.cli import main
from clew.cli.context import read_context
from clew.cli.tui.chat import Chat as TerminalChat
from clew.cli.tui.chat import ChatTerminal, summary_lines
from clew.cli.tui.markdown import TerminalLook
from clew.cli.tui.screen import Screen
from clew.cli.tui.status import status_line
from clew.testing import user


def status_text(figures: Any, width: int) -> str:
    return "".join(text for _, text in status_line(figures, width)).strip()


class Meter:
    """The status line and the summary of a chat, as its terminal shows them."""

    def __init__(self, chat: Any) -> None:
        written: list[str] = []
        terminal = ChatTerminal.on(Screen(TerminalLook(colors=False), lambda: (160, 40), written.append))
        chat.runtime.events.listen(terminal.on_event)
        self._chat = chat
        self._terminal_chat = TerminalChat(chat.app, chat.state.session, terminal)
        self._terminal_chat.state = chat.state

    async def figures(self) -> Any:
        await self._terminal_chat.refresh()
        return self._terminal_chat.figures(await self._chat.runtime.conversation(self._chat.state.session))

    async def summary(self) -> Any:
        return await self._terminal_chat.summary()


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command over the store of the chat, and reads its JSON."""

    async def run(*words: str, as_json: bool = True) -> Any:
        environ = {"CLEW_HOME": str(tmp_path / "home"), "COLUMNS": "120"}
        code = await asyncio.to_thread(main, [*words, *(["--json"] if as_json else [])], environ)
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out) if as_json else out

    return run


async def talked(chat: Any) -> Meter:
    """A chat with a provider that counts otherwise than we do, and with something to fold."""
    meter = Meter(chat)
    chat.provider.factor, chat.provider.unseen = 1.2, 150
    for length in (5, 300, 400):
        await chat.app.agent.ask(chat.state.session, user("About the rota. " * length))
    long = [user(f"Note {at}: {'Sunday shifts count twice in part 7. ' * 20}") for at in range(24)]
    await chat.hear(*long)
    return meter


async def sizes(chat: Any, meter: Meter) -> set[int]:
    """How large the conversation is, from everyone who says so."""
    figures, context = await meter.figures(), await read_context(chat.state)
    shown = re.search(r"([\d,]+) of 20,000 tokens", await chat.type("/context"))
    model = re.search(r"([\d,]+) are in use", await chat.type("/model"))
    assert shown is not None
    assert model is not None
    said = (int(found[1].replace(",", "")) for found in (shown, model))
    return {figures.used, context.page.tokens, sum(part.tokens for part in context.parts), *said}


def before_and_after(text: str) -> tuple[int, int]:
    found = re.search(r"([\d,]+) → ([\d,]+) tokens", text)
    assert found is not None, text
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


async def test_preview_apply_meter_and_store_agree_where_the_provider_counts_otherwise(chat: Any, command: Any) -> None:
    meter = await talked(chat)
    conversation = await chat.runtime.conversation(chat.state.session)
    assert conversation.size.calibration.ratio > 1.05
    (now,) = await sizes(chat, meter)
    assert now > conversation.size.counted
    chat.answers.append(True)
    shown = await chat.type("/compress --preview")
    preview, applied = shown.split("compacted", 1)
    (after,) = await sizes(chat, meter)
    assert before_and_after(preview) == before_and_after(applied) == (now, after)
    assert before_and_after(await chat.type("/tree")) == (now, after)
    session = (await chat.runtime.conversation(chat.state.session)).session
    (entry,) = (await command("sessions", "show", session))["compactions"]
    (each,) = (await command("insights"))["compactions"]["each"]
    assert (
        (entry["tokens_before"], entry["tokens_after"]) == (each["tokens_before"], each["tokens_after"]) == (now, after)
    )


async def test_the_parts_of_a_preview_are_those_of_context(chat: Any) -> None:
    await talked(chat)
    parts = {part.name: part.tokens for part in (await read_context(chat.state)).parts}
    largest = (await read_context(chat.state)).page.largest[0].tokens
    shown = await chat.type("/compress --preview")
    rows = re.findall(r"^\s+m\d+(?:-m\d+)?\s+\d+\s+(\w+)\s+([\d,]+)(?: → ([\d,]+))?", shown, re.MULTILINE)
    regions = dict.fromkeys(("head", "folded", "kept", "tail"), 0)
    for name, tokens, _ in rows:
        regions[name] += int(tokens.replace(",", ""))
    assert regions["head"] == parts["head"]
    assert regions["tail"] == parts["tail"]
    # Each row is rounded.
    assert abs(regions["folded"] + regions["kept"] - parts["middle"]) < len(rows)
    handoff = next(int(after.replace(",", "")) for name, _, after in rows if name == "folded")
    assert f"the handoff  {handoff:,} tokens" in shown
    await chat.type("/compress --apply")
    assert {part.name: part.tokens for part in (await read_context(chat.state)).parts}["summary"] == handoff
    assert largest > max(count_tokens([message]) for message in (await chat.view())[:1])


async def test_a_file_of_the_conversation_has_our_own_count_which_context_names_too(
    chat: Any, command: Any, tmp_path: Path
) -> None:
    await talked(chat)
    snapshot = await read_context(chat.state)
    assert f"our count of this request was {snapshot.counted:,}" in " ".join((await chat.type("/context")).split())
    conversation = await chat.runtime.conversation(chat.state.session)
    file = tmp_path / "talk.json"
    messages = [conversation.view.system_message(as_block=False), *conversation.messages]
    file.write_text(json.dumps(messages))
    model = conversation.target.model
    context = await command("context", str(file), "--model", model)
    preview = await command("compress", str(file), "--model", model, "--preview")
    done = await command("compress", str(file), "--model", model)
    assert count_tokens(messages, model=model) == context["tokens"] == preview["tokens_before"] == done["tokens_before"]
    assert count_tokens(messages, model=model) == snapshot.counted
    assert count_tokens(done["messages"], model=model) == done["tokens_after"]


async def test_an_undone_compaction_is_counted_nowhere(chat: Any, command: Any) -> None:
    meter = await talked(chat)
    (before,) = await sizes(chat, meter)
    await chat.type("/compress")
    assert (await meter.figures()).compactions == (await meter.summary()).compactions == 1
    await chat.type("/compress --undo")
    assert await sizes(chat, meter) == {before}
    summary = await meter.summary()
    assert ((await meter.figures()).compactions, summary.compactions, summary.freed) == (0, 0, 0)
    assert not any("folded" in line for line in summary_lines(summary))
    assert {each["compactions"] for each in (await command("sessions", "list"))["sessions"]} == {0}
    insights = (await command("insights"))["compactions"]
    assert (insights["count"], insights["tokens_freed"], insights["each"]) == (0, 0, [])
    assert "no compaction is in effect here" in " ".join((await chat.type("/engine")).split())
    again = await chat.type("/compress")
    assert "2 times" not in again
    assert (await meter.figures()).compactions == 1


async def test_calls_and_cost_are_the_same_everywhere(chat: Any, command: Any) -> None:
    meter = await talked(chat)
    chat.provider.summary = "## Active Task\nMend the rota.\n"
    await chat.type("/compress")
    figures, summary = await meter.figures(), await meter.summary()
    session = (await chat.runtime.conversation(chat.state.session)).session
    usage, insights = await command("usage"), await command("insights")
    details = await command("sessions", "show", session)
    totals = [usage["total"], insights["total"], details["usage"]]
    for total in totals:
        assert total["calls"] == figures.session.calls == summary.usage.calls
        assert total["prompt_tokens"] == figures.session.prompt_tokens == summary.usage.prompt_tokens
        assert total["cost_usd"] is None
    assert usage["auxiliary"] == insights["auxiliary"] == details["auxiliary_usage"]
    assert usage["auxiliary"]["calls"] >= 1
    no_price = [
        status_text(figures, 160),
        "\n".join(summary_lines(summary)),
        await chat.type("/usage"),
        await chat.type("/insights"),
        await chat.type("/model"),
        await command("usage", as_json=False),
        await command("sessions", "show", session, as_json=False),
    ]
    assert ["no price" in text for text in no_price] == [True] * len(no_price)
    assert not any("unknown" in text for text in no_price)
    assert f"{summary.usage.calls:,} calls" in no_price[2]


async def test_before_the_first_call_nothing_was_spent(chat: Any, command: Any) -> None:
    meter = Meter(chat)
    assert "$0.00" in status_text(await meter.figures(), 160)
    assert any(line.endswith("$0.00") for line in summary_lines(await meter.summary()))
    assert (await command("insights"))["total"]["cost_usd"] == 0
